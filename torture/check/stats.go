package check

import (
	"slices"
	"time"

	"leasehold/torture/history"
)

// Stats count what a trial has seen.
type Stats struct {
	Events  int `json:"events"`
	Clients int `json:"clients"`
	Killed  int `json:"killed"` // clients that ended before the trial did
	Calls   int `json:"calls"`
	Grants  int `json:"grants"` // leases that began
	Seen    int `json:"seen"`   // those of them that were seen valid for a while
	Lost    int `json:"lost"`   // leases whose client learned it

	Faults []Fault `json:"faults"` // by nemesis

	LongestWait map[string]time.Duration `json:"longest_wait"` // by name; of those that were granted
	Outage      time.Duration            `json:"outage"`       // the longest time for which somebody waited for a name that nobody held, under faults too

	Stale          int `json:"stale"`           // what the fenced resource refused
	UnfencedWrites int `json:"unfenced_writes"` //
	UnfencedLost   int `json:"unfenced_lost"`   // updates that the resource without fencing lost
}

// Fault is what one nemesis did.
type Fault struct {
	Nemesis string `json:"nemesis"`
	Strikes int    `json:"strikes"`
	Bit     int    `json:"bit"`    // those of them that had an effect
	Struck  int    `json:"struck"` // those of them that had an effect while somebody held a lease
}

// struck is how many strikes a verdict rests on.
func (s *Stats) struck() int {
	n := 0
	for _, f := range s.Faults {
		n += f.Struck
	}
	return n
}

func (t *trial) count() {
	s := &t.stats
	s.Events, s.LongestWait = len(t.events), map[string]time.Duration{}
	var end time.Duration = never
	for i := range t.events {
		switch e := &t.events[i]; e.Kind {
		case history.Start:
			s.Clients++
		case history.End:
			end = e.At
		case history.Call:
			s.Calls++
		}
	}
	for _, i := range t.exits {
		if t.events[i].Error != "" && t.at(i) < end {
			s.Killed++
		}
	}
	var held []span
	for _, name := range t.names {
		s.Grants += len(t.holds[name])
		for _, h := range t.holds[name] {
			if h.sure.from >= 0 && h.sure.to > h.sure.from {
				s.Seen++
			}
			if h.lost >= 0 {
				s.Lost++
			}
			if h.sure.from >= 0 {
				held = append(held, span{start: t.at(h.sure.from), end: min(t.given(h), t.last)})
			}
			if h.what == history.Lock {
				s.LongestWait[name] = max(s.LongestWait[name], t.at(h.answer)-t.at(h.call))
			}
		}
	}
	t.countFaults(held)
}

// given is when a holder began to give its lease up, was told that it is lost, or ended.
func (t *trial) given(h *hold) time.Duration {
	end := t.released(h)
	for _, o := range h.handles {
		if o.ending != nil {
			end = min(end, t.at(o.ending.call))
		}
		if o.lost >= 0 {
			end = min(end, t.at(o.lost))
		}
	}
	return end
}

func (t *trial) countFaults(held []span) {
	for i := range t.strikes {
		x := &t.strikes[i]
		n := slices.IndexFunc(t.stats.Faults, func(f Fault) bool { return f.Nemesis == x.Named })
		if n < 0 {
			n = len(t.stats.Faults)
			t.stats.Faults = append(t.stats.Faults, Fault{Nemesis: x.Named})
		}
		f := &t.stats.Faults[n]
		f.Strikes++
		if len(x.bits) == 0 {
			continue
		}
		f.Bit++
		if x.struck = slices.ContainsFunc(held, func(h span) bool { return h.start <= x.heal && x.At <= h.end }); x.struck {
			f.Struck++
		}
	}
}
