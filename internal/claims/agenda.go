package claims

import (
	"container/heap"
	"time"
)

// agenda is the claims by when they are due, soonest first.
type agenda []*Claim

func (a agenda) Len() int { return len(a) }

// Less: of one time in the order of making, so that equal inputs have equal
// outputs.
func (a agenda) Less(i, j int) bool {
	if a[i].due != a[j].due {
		return a[i].due < a[j].due
	}
	return a[i].serial < a[j].serial
}

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = int32(i), int32(j)
}

// Push and Pop are for package heap.
func (a *agenda) Push(x any) {
	cl := x.(*Claim)
	cl.index = int32(len(*a))
	*a = append(*a, cl)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	cl := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	cl.index = -1
	return cl
}

// set moves a claim to its new time; never takes it out.
func (a *agenda) set(cl *Claim, due time.Duration) {
	if due == never {
		a.remove(cl)
		return
	}
	if cl.index >= 0 && cl.due == due {
		return
	}
	cl.due = due
	if cl.index < 0 {
		heap.Push(a, cl)
	} else {
		heap.Fix(a, int(cl.index))
	}
}

func (a *agenda) remove(cl *Claim) {
	if cl.index >= 0 {
		heap.Remove(a, int(cl.index))
	}
}
