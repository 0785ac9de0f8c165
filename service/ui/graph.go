package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"leasehold/engine"
	"leasehold/internal/view"
)

// Bounds of a drawing. What is left out is counted.
const (
	maxDrawn  = 40 // names
	maxAround = 8  // holders, and waiters, of each
)

type graphBody struct {
	Name, Prefix string
	Drawing      *drawing
	Edges        []tie
	Cut          int // names that are not drawn
	Claims       int // claims on drawn names that are not drawn
	Do           string
	Cycles       int
	CyclesCut    bool
}

// tie is an edge in words.
type tie struct {
	Name, Caller string
	Waits, Cycle bool
	Ticket       uint64
}

// graph draws who holds what and who waits for what.
func (h *Handler) graph(r *http.Request, v *visit) (*answer, error) {
	b := &graphBody{Name: r.URL.Query().Get("name"), Prefix: r.URL.Query().Get("prefix")}
	if err := h.showsWaiters(); err != nil {
		return nil, err
	}
	p := v.shot.only(&v.Rights)
	if b.Name != "" {
		q, err := h.queueOf(r, v, b.Name) // or nothing is known, and the name may be taken
		if err != nil {
			return nil, err
		}
		switch _, there := p.snap.ByName[b.Name]; {
		case there:
		case v.shot.cut:
			return nil, &refusal{http.StatusNotImplemented, fmt.Errorf("the engine has too many names to draw what %s is tied to: ask the engine itself (leasehold why)", view.QuoteName(b.Name))}
		case len(q.Claims) > 0:
			p = p.with(q)
		}
	}
	circles := p.circles()
	b.Do, b.Cycles, b.CyclesCut = advice(p), len(circles.Cycles), circles.Cut
	if b.Name != "" {
		b.Do = adviceFor(p, b.Name)
	}
	queues, cut, claims := toDraw(p, b.Name, b.Prefix)
	b.Cut, b.Claims = cut, claims
	g := view.NewSnapshot(queues).Graph(circles)
	for _, e := range g.Edges {
		c := g.Callers[e.Caller]
		b.Edges = append(b.Edges, tie{g.Names[e.Name], c.Owner.String(), e.Waits, e.Waits && circles.In[view.Key{Name: g.Names[e.Name], Ticket: e.Ticket}], e.Ticket})
	}
	b.Drawing = draw(g)
	return &answer{page: "graph", title: "Who waits for whom", body: b}, nil
}

// toDraw chooses names: those of circles first, then those that hurt. With a name it is
// what that name is tied to.
func toDraw(p *picture, name, prefix string) (queues []engine.Queue, cut, claims int) {
	circles := p.circles()
	inCircle := map[string]bool{}
	for k := range circles.In {
		inCircle[k.Name] = true
	}
	var tied map[string]bool
	if name != "" {
		tied = around(p, name)
	}
	rows := slices.Clone(p.rows())
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(bit(inCircle[b.Name]), bit(inCircle[a.Name])) })
	for _, r := range rows {
		if tied != nil && !tied[r.Name] || !strings.HasPrefix(r.Name, prefix) {
			continue
		}
		if len(queues) == maxDrawn {
			cut++
			continue
		}
		q := p.snap.ByName[r.Name]
		few := engine.Queue{Name: q.Name, Limit: q.Limit}
		held, waiting := 0, 0
		for _, c := range q.Claims {
			n := &held
			if c.State == engine.Waiting {
				n = &waiting
			}
			// One in a circle is drawn, however many stand before it.
			if *n++; *n <= maxAround || circles.In[view.Key{Name: c.Name, Ticket: c.Ticket}] && *n <= 4*maxAround {
				few.Claims = append(few.Claims, c)
			} else {
				claims++
			}
		}
		queues = append(queues, few)
	}
	slices.SortFunc(queues, func(a, b engine.Queue) int { return strings.Compare(a.Name, b.Name) })
	return queues, cut, claims
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// around is the names that a name is tied to by somebody who waits for one of them while
// holding the other, directly or not.
func around(p *picture, name string) map[string]bool {
	ties := map[string][]string{}
	for _, q := range p.snap.Queues {
		for _, c := range q.Claims {
			if c.State == engine.Waiting {
				for _, h := range c.Owner.Holds {
					ties[q.Name] = append(ties[q.Name], h.Name)
					ties[h.Name] = append(ties[h.Name], q.Name)
				}
			}
		}
	}
	found, todo := map[string]bool{name: true}, []string{name}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, next := range ties[at] {
			if !found[next] {
				found[next] = true
				todo = append(todo, next)
			}
		}
	}
	return found
}
