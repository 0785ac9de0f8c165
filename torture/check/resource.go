package check

import (
	"fmt"

	"leasehold/torture/history"
)

// counter is a resource: a number that holders read, and set to one more.
type counter struct {
	value   int64
	set     int    // the event that set it last
	writes  int    // that it took
	highest uint64 // the highest token that it took
	read    map[int64]reading
}

// reading is what a lease has read and not written yet.
type reading struct{ line, writes int }

// resources replays what was read and written. An update is lost if a write rests on a
// reading that is older than the last write.
func (t *trial) resources() {
	counters := map[[2]string]*counter{}
	for i := range t.events {
		e := &t.events[i]
		if e.Kind != history.Read && e.Kind != history.Write {
			continue
		}
		key := [2]string{e.Name, e.Resource}
		c := counters[key]
		if c == nil {
			c = &counter{set: -1, read: map[int64]reading{}}
			counters[key] = c
		}
		switch {
		case e.Stale:
			t.stats.Stale++
		case e.Kind == history.Read:
			t.reads(i, e, c)
		default:
			t.writes(i, e, c)
		}
	}
}

func (t *trial) reads(i int, e *history.Event, c *counter) {
	t.takes(i, e, c)
	if e.Value != c.value {
		t.report(Finding{
			Property: Resource, At: e.At, Lines: lines(c.set, i),
			Text: fmt.Sprintf("the %s resource was read as %d, and it had been set to %d", e.Resource, e.Value, c.value),
		}, e.Name)
	}
	c.read[e.Op] = reading{i, c.writes}
}

func (t *trial) writes(i int, e *history.Event, c *counter) {
	t.takes(i, e, c)
	r, was := c.read[e.Op]
	if was && r.writes < c.writes {
		if e.Resource == history.Unfenced {
			t.stats.UnfencedLost++
		} else {
			t.report(Finding{
				Property: Resource, At: e.At, Lines: lines(r.line, c.set, i),
				Text: fmt.Sprintf("an update is lost: %s read at %s and wrote at %s, and another had written in between",
					t.byOp[e.Op].describe(), clock(t.at(r.line)), clock(e.At)),
			}, e.Name)
		}
	}
	if e.Resource == history.Unfenced {
		t.stats.UnfencedWrites++
	} else {
		t.judged[Resource]++
	}
	delete(c.read, e.Op)
	c.value, c.set = e.Value, i
	c.writes++
}

// takes checks the resource itself: it may take no token below the highest.
func (t *trial) takes(i int, e *history.Event, c *counter) {
	if e.Resource != history.Fenced {
		return
	}
	if e.Token < c.highest {
		t.report(Finding{
			Property: Resource, At: e.At, Lines: lines(i),
			Text: fmt.Sprintf("the fenced resource took the token %d after %d", e.Token, c.highest),
		}, e.Name)
	}
	if t.byOp[e.Op].exclusive() {
		c.highest = max(c.highest, e.Token)
	}
}
