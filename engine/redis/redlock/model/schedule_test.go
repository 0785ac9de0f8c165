package model

import (
	"fmt"
	"strings"
)

// print writes a schedule, one step a queue.
func (s *setup) print(schedule []event) string {
	var out strings.Builder
	w := world{}
	for n, e := range schedule {
		before := w
		s.next(before, func(other event, after world) {
			if other == e {
				w = after
			}
		})
		fmt.Fprintf(&out, "%4d  %s\n", n+1, s.notify(e, before, w))
	}
	return out.String()
}

func (s *setup) notify(e event, before, after world) string {
	who, m := s.name(int(e.try)), fmt.Sprintf("m%d", e.master+1)
	t, now := after.tries[e.try], after.masters[e.master%mostMasters]
	end := ""
	if t.phase == granted && before.tries[e.try].phase != granted {
		end = fmt.Sprintf(": %s is GRANTED %d", who, t.token)
	}
	switch e.kind {
	case begins:
		return fmt.Sprintf("%s begins and asks every master, hint %d", who, t.hint)
	case taken, takenReceived, retaken, retakenReceived:
		text := fmt.Sprintf("%s says mine, %d, stamp %d, to %s", m, now.counter, now.stamp, who)
		if e.kind == retaken || e.kind == retakenReceived {
			text = fmt.Sprintf("the key of %s vanishes on %s, which says mine, %d, stamp %d, to %s", before.masters[e.master].owner, m, now.counter, now.stamp, who)
		}
		if e.kind == taken || e.kind == retaken {
			text += ", unheard"
		}
		return text
	case chooses:
		var from []string
		for i := range s.masters {
			if before.masters[i].has(int(e.try)) != nothing {
				from = append(from, fmt.Sprintf("m%d", i+1))
			}
		}
		return fmt.Sprintf("%s has S = %s and the token %d%s", who, strings.Join(from, " "), t.token, end)
	case raised:
		return fmt.Sprintf("%s is raised from %d to %d for %s, which does not hear it", m, before.masters[e.master].counter, now.counter, who)
	case raisedReceived:
		return fmt.Sprintf("%s is raised from %d to %d for %s, which hears it%s", m, before.masters[e.master].counter, now.counter, who, end)
	case restarts:
		return fmt.Sprintf("%s restarts with the counter %d", m, now.counter)
	case releases:
		return fmt.Sprintf("%s releases %s", who, m)
	case restored:
		return fmt.Sprintf("%s is taken again by %s, which has %d masters: %d, stamp %d", m, who, s.owns(&before, int(e.try)), now.counter, now.stamp)
	default:
		return fmt.Sprintf("%s is taken by a renewal of %s", m, who)
	}
}

func (a id) String() string { return string('A' + rune(a-1)) }

// name is A, B, C for tries of different claims, A' for the second try of A.
func (s *setup) name(k int) string {
	name := s.ids[k].String()
	for j := range k {
		if s.ids[j] == s.ids[k] {
			name += "'"
		}
	}
	return name
}
