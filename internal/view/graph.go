package view

import "leasehold/engine"

// Graph is names and callers, and the edges between them.
type Graph struct {
	Names   []string
	Callers []Caller
	Edges   []Edge
}

// Caller is who holds or waits, with all that it reported to hold when it asked.
type Caller struct {
	Owner engine.Owner
	Cycle bool
}

// Edge is from a name to its holder, or from a caller to the name it waits for.
type Edge struct {
	Name, Caller int // indices in a Graph
	Waits        bool
	Ticket       uint64
}

// Graph makes a caller of a waiting claim and those that it names, and of each other claim
// one of its own. Callers in one of the circles are marked.
func (s *Snapshot) Graph(circles *Circles) *Graph {
	g := &Graph{}
	callers := map[Key]int{}
	add := func(c engine.Claim) int {
		g.Callers = append(g.Callers, Caller{Owner: c.Owner})
		return len(g.Callers) - 1
	}
	for _, l := range s.Queues {
		for _, c := range l.Claims {
			if c.State != engine.Waiting {
				continue
			}
			at := -1
			for _, h := range c.Owner.Holds {
				if o, ok := callers[Key{h.Name, h.Ticket}]; ok && !h.Elsewhere {
					at = o // several goroutines wait while they hold one thing
				}
			}
			if at < 0 {
				at = add(c)
			}
			callers[Key{c.Name, c.Ticket}] = at
			for _, h := range c.Owner.Holds {
				if !h.Elsewhere {
					callers[Key{h.Name, h.Ticket}] = at
				}
			}
			g.Callers[at].Cycle = g.Callers[at].Cycle || circles.In[Key{c.Name, c.Ticket}]
		}
	}
	for i, l := range s.Queues {
		g.Names = append(g.Names, l.Name)
		for _, c := range l.Claims {
			k := Key{c.Name, c.Ticket}
			at, ok := callers[k]
			if !ok {
				at = add(c)
				callers[k] = at
			}
			g.Edges = append(g.Edges, Edge{i, at, c.State == engine.Waiting, c.Ticket})
		}
	}
	return g
}
