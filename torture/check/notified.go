package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"leasehold/torture/history"
)

// notice is how long after another's lease was valid a client may take to learn that its own
// is lost. It learns of it when its lease ends, which was earlier; the rest is for a busy machine.
const notice = 5 * time.Second

// notified: if another's lease was certainly valid after one that nobody unlocked, the latter had
// ended. Its client learns of it, unless it has exited or stands still.
func (t *trial) notified(name string) {
	var all, exclusive []*hold
	for _, h := range t.holds[name] {
		if h.sure.from < 0 {
			continue
		}
		all = append(all, h)
		if h.exclusive() {
			exclusive = append(exclusive, h)
		}
	}
	byStart := func(a, b *hold) int { return cmp.Compare(a.sure.from, b.sure.from) }
	slices.SortFunc(all, byStart)
	slices.SortFunc(exclusive, byStart)
	for _, h := range all {
		// Who may hold besides a lease that is not exclusive says nothing of it.
		others := exclusive
		if h.exclusive() {
			others = all
		}
		i, _ := slices.BinarySearchFunc(others, h.sure.to, func(o *hold, to int) int { return cmp.Compare(o.sure.from, to) })
		for i < len(others) && t.at(others[i].sure.from) <= t.at(h.sure.to) {
			i++
		}
		if i < len(others) {
			t.hears(name, h, others[i])
		}
	}
}

func (t *trial) hears(name string, h, other *hold) {
	since := t.at(other.sure.from)
	heard, line := t.knows(h)
	if heard < since {
		if t.events[line].Kind == history.Lost {
			t.judged[Notified]++
		}
		return // it had given the name up, or knew
	}
	until := since + notice
	if h.sure.end < t.at(h.sure.to) || t.marked(h) {
		until += t.run.TTL // somebody revoked it: its own deadline is what counts
	}
	for _, s := range t.strikes {
		if s.stills(h.client) && s.At < until {
			until = max(until, s.heal+min(notice, never-s.heal))
		}
	}
	t.judged[Notified]++
	if i, ok := t.exits[h.client]; ok && t.at(i) < heard {
		return
	}
	if heard <= until || t.last <= until {
		return
	}
	text := "did not learn it until the end of the trial"
	if heard != never {
		text = "learned it at " + clock(heard)
	}
	t.report(Finding{
		Property: Notified, At: until, Lines: lines(h.sure.to, other.sure.from, line),
		Text: fmt.Sprintf("%s was valid for the last time at %s, and %s was valid at %s: the first had ended, but its client %s",
			h.describe(), clock(t.at(h.sure.to)), other.describe(), clock(since), text),
	}, name)
}

// stills is whether the client may stand still until the strike is healed.
func (s *strike) stills(client string) bool {
	switch s.Named {
	case "freeze": // a client, or all of them
		return s.Client == client || s.Client == ""
	case "cut", "packets": // the client runs on, and learns by its own deadline
		return false
	}
	return s.Client == client // one without a client is at the engine
}

// knows is when the client learned that the lease is lost, or began to give up the last
// handle of it: the answer of that says it too.
func (t *trial) knows(h *hold) (heard time.Duration, line int) {
	var ended time.Duration
	for _, o := range h.handles {
		switch {
		case o.ending == nil:
			ended = never
		case t.at(o.ending.call) >= ended && ended != never:
			ended, line = t.at(o.ending.call), o.ending.call
		}
	}
	if heard = ended; heard == never {
		line = -1
	}
	for _, o := range h.handles {
		if o.lost >= 0 && t.at(o.lost) < heard {
			heard, line = t.at(o.lost), o.lost
		}
	}
	return heard, line
}

// marked is whether somebody revoked the name while h was held.
func (t *trial) marked(h *hold) bool {
	return slices.ContainsFunc(t.revoke[h.name], func(r *op) bool {
		return r.result != history.Refused && h.call < t.closed(r) && t.released(h) > t.at(r.call)
	})
}
