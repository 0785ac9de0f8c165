// Package view shows queues to people and programs: as JSON, as a list, and as the reason
// why a name is not free. The command line, the service and its pages show the same.
package view

import (
	"fmt"
	"slices"
	"time"

	"leasehold/engine"
)

// Queue is a queue as JSON. Tickets and tokens are strings: JavaScript and jq read numbers
// as doubles and lose the last digits.
type Queue struct {
	Name   string  `json:"name"`
	Limit  int32   `json:"limit,omitempty"`
	Claims []Claim `json:"claims"`
}

// Claim is one place in it.
type Claim struct {
	Ticket    uint64       `json:"ticket,string"`
	Token     uint64       `json:"token,string"` // its first: ticket << 10
	State     string       `json:"state"`
	Mode      string       `json:"mode"`
	Permits   int32        `json:"permits"`
	Owner     engine.Owner `json:"owner"`
	TTL       float64      `json:"ttl_seconds"` // left; 0: no expiry
	Contended bool         `json:"contended,omitempty"`
	Revoked   bool         `json:"revoked,omitempty"`
}

// Of shows a queue.
func Of(q engine.Queue) Queue {
	v := Queue{Name: q.Name, Limit: q.Limit, Claims: []Claim{}}
	for _, c := range q.Claims {
		v.Claims = append(v.Claims, Claim{
			Ticket: c.Ticket, Token: c.Ticket << engine.HandoffBits, State: c.State.String(), Mode: Mode(c), Permits: c.Permits,
			Owner: c.Owner, TTL: c.TTL.Round(time.Millisecond).Seconds(), Contended: c.Contended, Revoked: c.Revoked,
		})
	}
	return v
}

// Without is a queue without hidden names: those that owners of its claims held when they asked.
func Without(q engine.Queue, hidden func(name string) bool) engine.Queue {
	hides := func(h engine.Hold) bool { return hidden(h.Name) }
	own := false
	for i, c := range q.Claims {
		if !slices.ContainsFunc(c.Owner.Holds, hides) {
			continue
		}
		if !own {
			q.Claims, own = slices.Clone(q.Claims), true
		}
		q.Claims[i].Owner.Holds = slices.DeleteFunc(slices.Clone(c.Owner.Holds), hides)
	}
	return q
}

// Mode is what kind of claim it is, in the words of the flags.
func Mode(c engine.Claim) string {
	switch {
	case c.Limit == engine.Max && c.Permits == engine.Max:
		return "exclusive"
	case c.Limit == engine.Max && c.Permits == 1:
		return "shared"
	}
	return "permits"
}

// ModeText is [Mode] with its figures.
func ModeText(c engine.Claim) string {
	if m := Mode(c); m != "permits" {
		return m
	}
	return fmt.Sprintf("%d of %d", c.Permits, c.Limit)
}

// Count is how many claims hold and how many wait.
func Count(q engine.Queue) (held, waiting int) {
	for _, c := range q.Claims {
		if c.State == engine.Held {
			held++
		} else {
			waiting++
		}
	}
	return held, waiting
}
