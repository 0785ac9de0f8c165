package sim

import "time"

// agenda is what is to happen, soonest first: a binary heap.
type agenda struct {
	events []event
	serial uint64
}

// event is one thing that happens at a moment. Of events at one moment the one that was
// put down first happens first, so that a run is the same each time.
type event struct {
	at     time.Duration
	serial uint64
	do     func()
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && e.serial < o.serial
}

func (a *agenda) add(at time.Duration, do func()) {
	a.serial++
	a.events = append(a.events, event{at, a.serial, do})
	for i := len(a.events) - 1; i > 0; {
		above := (i - 1) / 2
		if !a.events[i].before(&a.events[above]) {
			return
		}
		a.events[i], a.events[above] = a.events[above], a.events[i]
		i = above
	}
}

// next takes out the soonest event that is not later than end.
func (a *agenda) next(end time.Duration) (e event, ok bool) {
	if len(a.events) == 0 || a.events[0].at > end {
		return event{}, false
	}
	e = a.events[0]
	last := len(a.events) - 1
	a.events[0], a.events[last] = a.events[last], event{}
	a.events = a.events[:last]
	for i := 0; ; {
		least := i
		for below := 2*i + 1; below <= 2*i+2 && below < last; below++ {
			if a.events[below].before(&a.events[least]) {
				least = below
			}
		}
		if least == i {
			return e, true
		}
		a.events[i], a.events[least] = a.events[least], a.events[i]
		i = least
	}
}
