package ui

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

// maxSearched bounds the claims that searches for circles go through in one picture. Pages say
// that there may be more.
const maxSearched = 200_000

// picture is all queues as one reading found them. It does not change.
type picture struct {
	at      time.Time // when the reading ended; zero: there was none
	took    time.Duration
	cut     bool // there are more names
	partial bool // some are hidden from who looks
	first   bool // nothing was known before
	changed bool // since the one before
	lost    map[string]int

	snap    *view.Snapshot
	circles func() *view.Circles
	rows    func() []*row
	counted func() counts
	parts   *parts
}

// parts are what callers see who do not see all, by [Rights].Same. They last as long as the
// picture, so that many pages of one caller cost no more than one.
type parts struct {
	mu sync.Mutex
	by map[string]func() *picture
}

// maxParts bounds the parts of one picture. Those of more callers are computed for each page.
const maxParts = 100

// row is a queue in the overview.
type row struct {
	Name          string
	Mode          string
	Held, Waiting int
	First         engine.Claim
	Waits, Holds  time.Time // when the first of them asked; zero: none did
	Lost          int
	Revoked       bool
}

type counts struct{ Names, Held, Waiting, Contended int }

// newPicture is of queues that are sorted by name.
func newPicture(queues []engine.Queue, before *picture) *picture {
	p := &picture{snap: view.NewSnapshot(queues), parts: &parts{by: map[string]func() *picture{}}}
	p.lazy()
	if before == nil || len(queues) != len(before.snap.Queues) {
		p.changed = true
	} else {
		for i, q := range queues {
			if old := before.snap.Queues[i]; q.Name != old.Name || !same(q, old) {
				p.changed = true
				break
			}
		}
	}
	return p
}

func (p *picture) lazy() {
	p.circles = sync.OnceValue(func() *view.Circles { return p.snap.Circles(maxSearched) })
	p.rows = sync.OnceValue(func() []*row {
		rows := make([]*row, 0, len(p.snap.Queues))
		for _, q := range p.snap.Queues {
			if len(q.Claims) > 0 {
				rows = append(rows, rowOf(q, p.lost[q.Name]))
			}
		}
		slices.SortStableFunc(rows, orders["hurt"])
		return rows
	})
	p.counted = sync.OnceValue(func() (n counts) {
		for _, r := range p.rows() {
			n.Names++
			n.Held += r.Held
			n.Waiting += r.Waiting
			if r.Waiting > 0 {
				n.Contended++
			}
		}
		return n
	})
}

// only is the part that a caller sees.
func (p *picture) only(v *Rights) *picture {
	if v.All {
		return p
	}
	if v.Same == "" {
		return p.part(v)
	}
	p.parts.mu.Lock()
	get, known := p.parts.by[v.Same]
	if !known {
		get = sync.OnceValue(func() *picture { return p.part(v) })
		if len(p.parts.by) < maxParts {
			p.parts.by[v.Same] = get
		}
	}
	p.parts.mu.Unlock()
	return get()
}

func (p *picture) part(v *Rights) *picture {
	var queues []engine.Queue
	for _, q := range p.snap.Queues {
		if v.look(q.Name) {
			queues = append(queues, v.queue(q))
		}
	}
	part := *p
	part.partial = len(queues) < len(p.snap.Queues)
	part.snap = view.NewSnapshot(queues)
	part.lazy()
	return &part
}

// queue is a queue without the names that are hidden from the caller.
func (r *Rights) queue(q engine.Queue) engine.Queue {
	if r.All {
		return q
	}
	return view.Without(q, func(name string) bool { return !r.look(name) })
}

// with is the picture with one more queue.
func (p *picture) with(q engine.Queue) *picture {
	more := *p
	more.snap = view.NewSnapshot(append(slices.Clip(p.snap.Queues), q))
	more.lazy()
	return &more
}

// same reports whether nothing has changed but the time that is left.
func same(a, b engine.Queue) bool {
	return a.Limit == b.Limit && slices.EqualFunc(a.Claims, b.Claims, func(x, y engine.Claim) bool {
		return x.Ticket == y.Ticket && x.State == y.State && x.Revoked == y.Revoked && x.Contended == y.Contended &&
			x.Permits == y.Permits && len(x.Owner.Holds) == len(y.Owner.Holds)
	})
}

func rowOf(q engine.Queue, lost int) *row {
	r := &row{Name: q.Name, Mode: view.ModeText(q.Claims[0]), First: q.Claims[0], Lost: lost}
	r.Held, r.Waiting = view.Count(q)
	for _, c := range q.Claims {
		oldest := &r.Holds
		if c.State == engine.Waiting {
			oldest = &r.Waits
		}
		if s := c.Owner.Since; !s.IsZero() && (oldest.IsZero() || s.Before(*oldest)) {
			*oldest = s
		}
		r.Revoked = r.Revoked || c.Revoked
	}
	return r
}

// order is one way to sort the overview.
type order func(a, b *row) int

// orders are by what stands in the address.
var orders = map[string]order{
	"hurt": func(a, b *row) int { return cmp.Or(longest(a, b), most(a, b), worst(a, b), byName(a, b)) },
	"wait": func(a, b *row) int { return cmp.Or(longest(a, b), byName(a, b)) },
	"many": func(a, b *row) int { return cmp.Or(most(a, b), longest(a, b), byName(a, b)) },
	"lost": func(a, b *row) int { return cmp.Or(worst(a, b), longest(a, b), byName(a, b)) },
	"name": byName,
}

func byName(a, b *row) int { return strings.Compare(a.Name, b.Name) }
func most(a, b *row) int   { return cmp.Compare(b.Waiting, a.Waiting) }
func worst(a, b *row) int  { return cmp.Compare(b.Lost, a.Lost) }

// longest is first who has waited since the earliest time. A wait without a time is one still.
func longest(a, b *row) int {
	switch {
	case (a.Waiting > 0) != (b.Waiting > 0):
		return cmp.Compare(b.Waiting, a.Waiting)
	case a.Waits.IsZero() || b.Waits.IsZero():
		return 0
	}
	return a.Waits.Compare(b.Waits)
}
