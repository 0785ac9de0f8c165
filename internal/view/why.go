package view

import (
	"fmt"
	"strings"

	"leasehold/engine"
)

// Why is the reason why a name is not free: its holders, the names for which they wait, and
// so on. Each name of it is followed once.
type Why struct {
	Name    string   `json:"name"`
	Holders []Holder `json:"holders"` // empty: nobody holds it
}

// Holder is who holds a name, and what that waits for.
type Holder struct {
	Owner  engine.Owner `json:"owner"`
	Ticket uint64       `json:"ticket,string"`
	Mode   string       `json:"mode"`
	Waits  []Wait       `json:"waits,omitempty"`
}

// Wait is one wait of a holder.
type Wait struct {
	Name   string `json:"name"`
	Ticket uint64 `json:"ticket,string"`
	Cycle  bool   `json:"cycle,omitempty"` // it leads back to a name above
	Above  bool   `json:"above,omitempty"` // that name stands above
	Why    *Why   `json:"why,omitempty"`   // nil if the name stands above
}

// Why follows a name.
func (s *Snapshot) Why(name string) *Why {
	return s.why(name, map[string]bool{})
}

func (s *Snapshot) why(name string, seen map[string]bool) *Why {
	w := &Why{Name: name, Holders: []Holder{}}
	q := s.ByName[name]
	if len(q.Claims) > 0 {
		seen[name] = true
	}
	for _, c := range q.Claims {
		if c.State != engine.Held {
			continue
		}
		h := Holder{Owner: c.Owner, Ticket: c.Ticket, Mode: ModeText(c)}
		for _, v := range s.Under[Key{name, c.Ticket}] {
			wait := Wait{Name: v.Name, Ticket: v.Ticket, Above: seen[v.Name]}
			if wait.Above {
				wait.Cycle = s.InCycle(v)
			} else {
				wait.Why = s.why(v.Name, seen)
			}
			h.Waits = append(h.Waits, wait)
		}
		w.Holders = append(w.Holders, h)
	}
	return w
}

// Text is the reason as lines. name writes a name, and plain any other text of a client:
// both are foreign, and may have control characters.
func (w *Why) Text(name, plain func(string) string) string {
	var b strings.Builder
	w.text(&b, 0, name, plain)
	return b.String()
}

func (w *Why) text(b *strings.Builder, depth int, name, plain func(string) string) {
	indent := strings.Repeat("  ", depth)
	if len(w.Holders) == 0 {
		fmt.Fprintf(b, "%s%s: nobody holds it\n", indent, name(w.Name))
		return
	}
	for _, h := range w.Holders {
		fmt.Fprintf(b, "%s%s is held by %s (%s, ticket %d)", indent, name(w.Name), plain(h.Owner.String()), h.Mode, h.Ticket)
		if len(h.Waits) == 0 {
			b.WriteString(", who waits for nothing here\n")
			continue
		}
		b.WriteString("\n")
		for _, v := range h.Waits {
			fmt.Fprintf(b, "%s  who waits for %s (ticket %d)", indent, name(v.Name), v.Ticket)
			switch {
			case v.Cycle:
				b.WriteString(": a cycle\n")
			case v.Above:
				b.WriteString(": see above\n")
			default:
				b.WriteString("\n")
				v.Why.text(b, depth+1, name, plain)
			}
		}
	}
}

// Cycle reports whether a cycle is in it.
func (w *Why) Cycle() bool {
	for _, h := range w.Holders {
		for _, v := range h.Waits {
			if v.Cycle || v.Why != nil && v.Why.Cycle() {
				return true
			}
		}
	}
	return false
}
