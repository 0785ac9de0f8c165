package check

import (
	"fmt"
	"slices"
	"time"

	"leasehold/torture/history"
)

// door is a name while the events pass by.
type door struct {
	name     string
	holders  int // leases that are not given up
	waiting  []*op
	since    time.Duration // nobody holds it since then, and nobody was granted it
	freed    int           // the event that this began with
	reported time.Duration // the since of the last finding
}

// liveness: while no fault is under way, nobody waits longer than the bound for a name that
// nobody holds. The bound has room for what a client left that died.
func (t *trial) liveness() {
	l := &doors{trial: t, doors: map[string]*door{}, mine: map[string][]*op{}, served: true}
	for _, name := range t.names {
		l.doors[name] = &door{name: name, reported: -1, freed: -1}
	}
	for i := range t.events {
		l.event(i, &t.events[i])
	}
	for _, name := range t.names {
		l.judge(len(t.events)-1, l.doors[name])
	}
	t.judged[Liveness] = l.heals
}

type doors struct {
	*trial
	doors  map[string]*door
	mine   map[string][]*op // by client: what it waits for and holds
	faults int              // under way
	healed time.Duration    // since then there is none
	heal   int              // the event
	grants time.Duration    // since then an engine that forgot grants again
	served bool             // a waiter was granted since, or nothing is judged
	heals  int              // after which one was
}

func (l *doors) event(i int, e *history.Event) {
	switch e.Kind {
	case history.Strike:
		for _, name := range l.names {
			l.judge(i, l.doors[name])
		}
		l.faults++
		l.served = true // nothing is said of the strikes before it any more
	case history.Heal:
		if l.faults--; l.faults == 0 {
			l.healed, l.heal, l.served = e.At, i, false
		}
		n := slices.IndexFunc(l.strikes, func(s strike) bool { return s.Fault == e.Fault })
		l.grants = max(l.grants, e.At+l.forgets(&l.strikes[n]))
	case history.Call:
		if o := l.byOp[e.Op]; o.what == history.Lock {
			d := l.doors[o.name]
			l.judge(i, d)
			d.waiting = append(d.waiting, o)
			l.mine[o.client] = append(l.mine[o.client], o)
		}
	case history.Answer:
		l.answered(i, l.byOp[e.Op])
	case history.Exit:
		for _, o := range l.mine[e.Client] {
			l.leaves(i, o)
		}
		delete(l.mine, e.Client)
	}
}

func (l *doors) answered(i int, o *op) {
	switch {
	case o.acquires():
		d := l.doors[o.name]
		l.judge(i, d)
		waited := len(d.waiting)
		d.waiting = slices.DeleteFunc(d.waiting, func(w *op) bool { return w == o })
		if o.hold == nil {
			l.forget(o)
			return
		}
		if waited > len(d.waiting) && l.faults == 0 && !l.served {
			l.served = true
			l.heals++
		}
		d.holders++
		if o.what != history.Lock {
			l.mine[o.client] = append(l.mine[o.client], o)
		}
	case o.of != nil && o.of.hold != nil && o.of.ending == o:
		l.leaves(i, o.of)
		l.forget(o.of)
	}
}

func (l *doors) forget(o *op) {
	l.mine[o.client] = slices.DeleteFunc(l.mine[o.client], func(x *op) bool { return x == o })
}

// leaves takes a call out that waits or holds.
func (l *doors) leaves(i int, o *op) {
	d := l.doors[o.name]
	l.judge(i, d)
	if n := slices.Index(d.waiting, o); n >= 0 {
		d.waiting = slices.Delete(d.waiting, n, n+1)
		return
	}
	if o.answer >= 0 && o.answer < i && o.hold != nil && slices.Contains(l.mine[o.client], o) {
		if d.holders--; d.holders == 0 {
			d.since, d.freed = l.at(i), i
		}
	}
}

// judge looks at a name as it has been until the event i.
func (l *doors) judge(i int, d *door) {
	if d.holders > 0 || len(d.waiting) == 0 {
		return
	}
	first := d.waiting[0]
	since := max(d.since, l.at(first.call))
	l.stats.Outage = max(l.stats.Outage, l.at(i)-since)
	if l.faults > 0 || l.full(Liveness) {
		return
	}
	begun := max(since, l.healed, l.grants)
	if bound := l.run.Declares.Bound; l.at(i)-begun > bound && d.reported != begun {
		d.reported = begun
		l.report(Finding{
			Property: Liveness, At: begun + bound, Lines: lines(d.freed, first.call, l.line(begun), i),
			Text: fmt.Sprintf("%s waits since %s, nobody holds the name since %s and no fault is under way since %s: nobody was granted it until %s, which is longer than %s",
				first.describe(), clock(l.at(first.call)), clock(d.since), clock(l.healed), clock(l.at(i)), long(bound)),
		}, d.name)
	}
}

// line is the heal, if the wait counts from it.
func (l *doors) line(begun time.Duration) int {
	if begun == l.healed && l.healed > 0 {
		return l.heal
	}
	return -1
}
