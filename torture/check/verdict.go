package check

import (
	"fmt"
)

func (t *trial) verdicts(o Options) []Verdict {
	var all []Verdict
	for _, p := range properties {
		all = append(all, t.verdict(p, o))
	}
	if o.Queue {
		v := t.verdict(Queue, o)
		if t.undecided > 0 {
			v.Why += fmt.Sprintf("; %s left out, with more possible orders than are followed", plural(t.undecided, "call was", "calls were"))
		}
		all = append(all, v)
	}
	return all
}

func (t *trial) verdict(p Property, o Options) Verdict {
	v := Verdict{Property: p, N: t.stats.struck()}
	if p == Liveness {
		v.N = t.judged[p] // strikes after which it was put to the test
	}
	if c := t.found[p]; c != nil {
		v.Found, v.Declared = c.all, c.declared
	}
	switch {
	case v.Found > v.Declared:
		v.Word, v.Why = Violated, plural(v.Found-v.Declared, "violation", "violations")
	case t.undeclared(p) != "":
		v.Word, v.Why = NotDeclared, t.undeclared(p)
	case v.Declared > 0:
		v.Word, v.Why = AsDeclared, "seen "+plural(v.Declared, "time", "times")+" under a fault for which the engine promises nothing"
	case p == Exclusion && t.run.Declares.MayDouble:
		v.Word, v.Why = TooWeak, t.weakness()
	default:
		if v.Why = t.tooSmall(p, o, v.N); v.Why != "" {
			v.Word = Void
			break
		}
		v.Word, v.Why = NotSeen, "no violation in "+plural(t.judged[p], "case", "cases")
		if p != Nothing {
			v.Bound = 3 / float64(v.N)
			v.Why += fmt.Sprintf(" and %s: a strike shows one less often than %.2g, with 95 %% confidence", plural(v.N, "strike", "strikes"), v.Bound)
		}
	}
	return v
}

// undeclared is why the engine need not have a property.
func (t *trial) undeclared(p Property) string {
	d := t.run.Declares
	switch {
	case p == Order && d.Order != fifo:
		return "the engine declares no order"
	case p == Tokens && d.Fencing == fencingNone:
		return "the engine declares no fencing"
	case p == Resource && d.Fencing == fencingNone:
		return "the engine declares no fencing: its tokens protect no resource"
	}
	return ""
}

// weakness is why the trial did not show what the engine declares.
func (t *trial) weakness() string {
	const declares = "the engine declares that a failover may grant what is still held, and "
	failovers := 0
	for i := range t.strikes {
		if s := &t.strikes[i]; t.voids(s) && len(s.bits) > 0 {
			failovers++
		}
	}
	if failovers == 0 {
		return declares + "there was no failover"
	}
	return declares + plural(failovers, "failover", "failovers") + " did not show it"
}

// tooSmall is why a trial without a violation says nothing of a property.
func (t *trial) tooSmall(p Property, o Options, struck int) string {
	if t.judged[p] == 0 {
		switch p {
		case Honesty:
			return "no Unlock said OK"
		case Order:
			return "nobody waited while another call began"
		case Resource:
			return "nobody wrote to the fenced resource"
		case Notified:
			return "no lease ended without Unlock while another began"
		case Liveness:
			return "nobody who waited was granted a lease after a fault was over"
		case Nothing:
			return "nobody looked for what is left"
		}
	}
	if p == Nothing {
		return ""
	}
	seen := plural(t.stats.Grants, "lease", "leases")
	least := t.stats.Grants
	if p == Queue {
		least = t.judged[p]
		seen = plural(least, "call of the engine itself was checked", "calls of the engine itself were checked")
	}
	if least < o.Grants {
		return fmt.Sprintf("%s, of at least %d", seen, o.Grants)
	}
	if len(t.strikes) == 0 {
		return "there were no faults"
	}
	if struck < o.Strikes {
		return fmt.Sprintf("%s had an effect while somebody held a lease, of at least %d", plural(struck, "fault", "faults"), o.Strikes)
	}
	if p == Resource && t.stats.Stale == 0 && t.stats.UnfencedLost == 0 {
		return "no write came late: the unfenced resource lost nothing either"
	}
	return ""
}
