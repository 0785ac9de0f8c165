package claims

import (
	"container/heap"
	"time"
)

// timers is the claims by when they are due, soonest first.
type timers []*Claim

func (a timers) Len() int { return len(a) }

// Less: of one time in the order of making, so that equal inputs have equal
// outputs.
func (a timers) Less(i, j int) bool {
	if a[i].due != a[j].due {
		return a[i].due < a[j].due
	}
	return a[i].serial < a[j].serial
}

func (a timers) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = int32(i), int32(j)
}

// Push and Pop are for package heap.
func (a *timers) Push(x any) {
	cl := x.(*Claim)
	cl.index = int32(len(*a))
	*a = append(*a, cl)
}

func (a *timers) Pop() any {
	last := len(*a) - 1
	cl := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	cl.index = -1
	return cl
}

// set moves a claim to its new time; never takes it out.
func (a *timers) set(cl *Claim, due time.Duration) {
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

func (a *timers) remove(cl *Claim) {
	if cl.index >= 0 {
		heap.Remove(a, int(cl.index))
	}
}
