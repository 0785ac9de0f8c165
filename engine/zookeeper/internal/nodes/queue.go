package nodes

import (
	"cmp"
	"slices"

	"leasehold/engine/queue"
)

// Queue is the nodes of a name in their order.
type Queue []Node

// Sort makes a queue of what ZooKeeper lists. The first node that is not of the
// layout is the error; the queue is then without those.
func (l Layout) Sort(children []string) (line Queue, err error) {
	line = make(Queue, 0, len(children))
	for _, name := range children {
		n, e := l.Parse(name)
		if e != nil {
			err = cmp.Or(err, e)
			continue
		}
		line = append(line, n)
	}
	slices.SortFunc(line, func(a, b Node) int {
		// Equal numbers: who reads under its own write, in Curator's layout.
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), -cmp.Compare(a.Permits, b.Permits), cmp.Compare(a.Name, b.Name))
	})
	return line, err
}

// Find is the place of a node, or -1. It looks from the end, where a node is that was just
// made.
func (l Queue) Find(name string) int {
	for i, n := range slices.Backward(l) {
		if n.Name == name {
			return i
		}
	}
	return -1
}

// Holders is how many hold: see [queue.Holders]. A node whose limit is another than
// that of the first is about to go, since its Join is refused: until then nobody
// passes it.
func (l Queue) Holders() int {
	n := 0
	for n < len(l) && l[n].Limit == l[0].Limit {
		n++
	}
	if n == 0 {
		return 0
	}
	return queue.Holders(n, l[0].Limit, func(i int) int32 { return l[i].Permits })
}

// Held reports whether place i holds.
func (l Queue) Held(i int) bool { return i < l.Holders() }

// Contended reports whether somebody waits behind place i, which holds.
func (l Queue) Contended(i int) bool { return i < l.Holders() && l.Holders() < len(l) }

// WaitsFor is the node whose change may let place i hold, which waits; "" is any
// change in the queue.
//
//   - Who takes everything can hold only as the first: not before the node just
//     before it has gone.
//   - A reader cannot hold before the last writer before it has gone.
//   - Who takes some of the permits waits for any of those who hold, if it is the
//     first to wait; else for whoever waits just before it to hold, or to go.
//   - A reader that is kept waiting by such a claim and by no writer watches the
//     queue. (Several of Max is what the contract allows and package leasehold never
//     asks for.)
func (l Queue) WaitsFor(i int) string {
	me := &l[i]
	switch {
	case me.full():
		return l[i-1].Name
	case !me.Counted():
		for j := i - 1; j >= 0; j-- {
			if l[j].full() {
				return l[j].Name
			}
		}
		return ""
	case l.Held(i - 1):
		return ""
	}
	return l[i-1].Name
}

// Blockers is nodes before place i of which at least one must go before i can hold: while all of
// them stand, it waits. It is the last one that alone leaves no room for i, or that has another
// limit; if there is none, it is those just before i that together leave none.
//
// It is nil for a node that holds. Who reads under its own write in Curator's layout has the
// number of that write, and holds beside it.
func (l Queue) Blockers(i int) Queue {
	me := &l[i]
	if l.Held(i) || l[i-1].Seq == me.Seq {
		return nil
	}
	for j := i - 1; j >= 0; j-- {
		if l[j].Limit != me.Limit || int64(l[j].Permits)+int64(me.Permits) > int64(me.Limit) {
			return l[j : j+1]
		}
	}
	first := i
	for sum := int64(me.Permits); sum <= int64(me.Limit); sum += int64(l[first].Permits) {
		first--
	}
	return l[first:i]
}

// Wakes reports whether the place behind i may wait for i to hold: when the client
// of i learns that it holds, it must write to its node. That is so at its first
// look too: the one behind may have looked earlier, and seen i wait.
func (l Queue) Wakes(i int) bool {
	return i+1 < len(l) && !l[i].full() && l[i+1].Counted()
}
