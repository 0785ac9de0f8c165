package ui

import (
	"fmt"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

// advice is what to do, in a sentence or two.
func advice(p *picture) string {
	circles := p.circles()
	if len(circles.Cycles) > 0 {
		return ofCycle(circles.Cycles[0])
	}
	if rows := p.rows(); len(rows) > 0 && rows[0].Waiting > 0 { // the longest wait is first
		r := rows[0]
		circle := "Nobody waits in a circle."
		if circles.Cut || p.cut || p.partial {
			circle = "No circle was found, but not all could be looked for."
		}
		return fmt.Sprintf("%s The longest wait is for %s, for %s. ", circle, view.QuoteName(r.Name), age(r.Waits, time.Now())) + adviceFor(p, r.Name)
	}
	return "Nobody waits."
}

// adviceFor says who has to act so that a name comes free.
func adviceFor(p *picture, name string) string {
	for _, c := range p.circles().Cycles {
		for _, s := range c.Steps {
			if s.Claim.Name == name {
				return ofCycle(c)
			}
		}
	}
	at, seen := name, map[string]bool{}
	for !seen[at] {
		seen[at] = true
		var holder engine.Claim
		held := 0
		for _, c := range p.snap.ByName[at].Claims {
			if c.State == engine.Held {
				holder = c
				held++
			}
		}
		switch {
		case held == 0:
			return fmt.Sprintf("Nobody holds %s: it is free.", view.QuoteName(at))
		case held > 1: // each may wait for something else, and one may be enough
			return fmt.Sprintf("%s callers hold %s: look at each of them below.", thousands(held), view.QuoteName(at))
		}
		under := p.snap.Under[view.Key{Name: at, Ticket: holder.Ticket}]
		if len(under) == 0 {
			return fmt.Sprintf("All depends on %s, which holds %s and waits for nothing here: look there, or revoke its ticket %d.",
				who(holder), view.QuoteName(at), holder.Ticket)
		}
		at = under[0].Name
	}
	return "The holders wait for each other's names: look at each of them below."
}

// ofCycle says who waits for whom, and what breaks it.
func ofCycle(c view.Cycle) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d callers wait for each other in a circle: ", len(c.Steps))
	for i, s := range c.Steps {
		if i == 4 && len(c.Steps) > 5 {
			fmt.Fprintf(&b, "; and so on")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s waits for %s", who(s.Claim), view.QuoteName(s.Claim.Name))
	}
	fmt.Fprintf(&b, ". The library lets one of them give up by itself. If it does not, revoke the waiting ticket %d on %s: the others then go on.",
		c.Victim.Ticket, view.QuoteName(c.Victim.Name))
	return b.String()
}

func who(c engine.Claim) string { return short(view.Printable(c.Owner.String()), 60) }
