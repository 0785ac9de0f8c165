package ui

import (
	"cmp"
	"fmt"
	"slices"

	"leasehold/internal/view"
)

// drawing is a graph with places. Each arrow leads to the right, from who waits to the name
// and from the name to its holder, so what all depends on stands rightmost. Only an arrow
// that closes a circle leads back.
type drawing struct {
	Width, Height int
	Nodes         []*node
	Arrows        []arrow
}

type node struct {
	Name       string // of a name; else it is a caller
	Text, Full string
	IsName     bool
	Cycle      bool
	X, Y       int // of its left upper corner

	out, in []int
	layer   int
	at      float64 // its place in the layer
}

type arrow struct {
	Path  string
	Waits bool
	Cycle bool
	Full  string
}

const (
	nodeWide = 180
	nodeHigh = 34
	gapWide  = 46
	gapHigh  = 14
	margin   = 12
)

// draw places the names and callers of a graph. It takes time in proportion to the edges,
// which the caller bounds.
func draw(g *view.Graph) *drawing {
	d := &drawing{}
	for _, n := range g.Names {
		text := view.QuoteName(n)
		d.Nodes = append(d.Nodes, &node{Name: n, IsName: true, Text: short(text, 24), Full: text})
	}
	for _, c := range g.Callers {
		text := view.Printable(c.Owner.String())
		d.Nodes = append(d.Nodes, &node{Text: short(cmp.Or(text, "?"), 24), Full: text, Cycle: c.Cycle})
	}
	type edge struct {
		from, to int
		waits    bool
		ticket   uint64
	}
	var edges []edge
	for _, e := range g.Edges {
		name, caller := e.Name, len(g.Names)+e.Caller
		a := edge{name, caller, e.Waits, e.Ticket}
		if e.Waits {
			a.from, a.to = caller, name
		}
		edges = append(edges, a)
		d.Nodes[a.from].out = append(d.Nodes[a.from].out, a.to)
		d.Nodes[a.to].in = append(d.Nodes[a.to].in, a.from)
	}
	back := d.layers()
	d.place()
	// A name that a marked caller waits for, and that a marked caller holds, is in the circle.
	for i := range g.Names {
		marked := func(all []int) bool { return slices.ContainsFunc(all, func(o int) bool { return d.Nodes[o].Cycle }) }
		d.Nodes[i].Cycle = marked(d.Nodes[i].in) && marked(d.Nodes[i].out)
	}
	for _, e := range edges {
		a, b := d.Nodes[e.from], d.Nodes[e.to]
		verb := "holds"
		if e.waits {
			verb = "waits for"
		}
		name, caller := a, b
		if e.waits {
			name, caller = b, a
		}
		d.Arrows = append(d.Arrows, arrow{
			Path: path(a, b, back[[2]int{e.from, e.to}]), Waits: e.waits, Cycle: a.Cycle && b.Cycle,
			Full: fmt.Sprintf("%s %s %s, ticket %d", caller.Full, verb, name.Full, e.ticket),
		})
	}
	return d
}

// layers gives each node the layer after the last of those that lead to it, and returns the
// edges that close a circle, which do not count.
func (d *drawing) layers() (back map[[2]int]bool) {
	back = map[[2]int]bool{}
	const fresh, open, done = 0, 1, 2
	state := make([]int, len(d.Nodes))
	var order []int // each node after all that it leads to
	var visit func(int)
	visit = func(n int) {
		state[n] = open
		for _, next := range d.Nodes[n].out {
			switch state[next] {
			case open:
				back[[2]int{n, next}] = true
			case fresh:
				visit(next)
			}
		}
		state[n] = done
		order = append(order, n)
	}
	for _, all := range []bool{false, true} { // first those to which nothing leads
		for n := range d.Nodes {
			if state[n] == fresh && (all || len(d.Nodes[n].in) == 0) {
				visit(n)
			}
		}
	}
	for _, n := range slices.Backward(order) {
		for _, next := range d.Nodes[n].out {
			if !back[[2]int{n, next}] {
				d.Nodes[next].layer = max(d.Nodes[next].layer, d.Nodes[n].layer+1)
			}
		}
	}
	return back
}

// place puts what is tied together into a band of its own, and in each layer of it near what
// leads there.
func (d *drawing) place() {
	top := margin
	for _, part := range d.parts() {
		layers := map[int][]int{}
		deepest := 0
		for _, n := range part {
			l := d.Nodes[n].layer
			layers[l] = append(layers[l], n)
			deepest = max(deepest, l)
		}
		sort := func(l int, near func(*node) []int) {
			middle := map[int]float64{}
			for i, n := range layers[l] {
				middle[n] = float64(i)
				if of := near(d.Nodes[n]); len(of) > 0 {
					sum := 0.0
					for _, o := range of {
						sum += d.Nodes[o].at
					}
					middle[n] = sum / float64(len(of))
				}
			}
			slices.SortStableFunc(layers[l], func(a, b int) int { return cmp.Compare(middle[a], middle[b]) })
			for i, n := range layers[l] {
				d.Nodes[n].at = float64(i)
			}
		}
		for l := 0; l <= deepest; l++ {
			sort(l, func(n *node) []int { return n.in })
		}
		for l := deepest; l >= 0; l-- {
			sort(l, func(n *node) []int { return n.out })
		}
		tallest := 0
		for l := 0; l <= deepest; l++ {
			tallest = max(tallest, len(layers[l]))
		}
		high := tallest*(nodeHigh+gapHigh) + gapHigh
		for l := 0; l <= deepest; l++ {
			skip := (high - len(layers[l])*(nodeHigh+gapHigh)) / 2
			for i, n := range layers[l] {
				d.Nodes[n].X = margin + l*(nodeWide+gapWide)
				d.Nodes[n].Y = top + skip + i*(nodeHigh+gapHigh)
				d.Width = max(d.Width, d.Nodes[n].X+nodeWide+margin)
			}
		}
		top += high + 2*gapHigh // room for arrows that lead back
	}
	d.Width, d.Height = max(d.Width, nodeWide), top+margin
}

// parts are the nodes that are tied together, the largest part first.
func (d *drawing) parts() (all [][]int) {
	seen := make([]bool, len(d.Nodes))
	for n := range d.Nodes {
		if seen[n] {
			continue
		}
		seen[n] = true
		part := []int{n}
		for i := 0; i < len(part); i++ {
			for _, next := range append(slices.Clip(d.Nodes[part[i]].out), d.Nodes[part[i]].in...) {
				if !seen[next] {
					seen[next] = true
					part = append(part, next)
				}
			}
		}
		slices.Sort(part)
		all = append(all, part)
	}
	slices.SortStableFunc(all, func(a, b []int) int { return cmp.Compare(len(b), len(a)) })
	return all
}

// path is a line from one node to another.
func path(a, b *node, back bool) string {
	if back {
		fromX, toX := a.X+nodeWide/2, b.X+nodeWide/2
		fromY, toY := a.Y+nodeHigh, b.Y+nodeHigh
		below := max(fromY, toY) + 3*gapHigh
		return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", fromX, fromY, fromX, below, toX, below, toX, toY+4)
	}
	fromX, toX := a.X+nodeWide, b.X-5
	fromY, toY := a.Y+nodeHigh/2, b.Y+nodeHigh/2
	bend := (toX - fromX) / 2
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", fromX, fromY, fromX+bend, fromY, toX-bend, toY, toX, toY)
}
