package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"leasehold/engine"
)

// queueView is a queue as --json shows it. Tickets and tokens are strings:
// JavaScript and jq read numbers as doubles and lose the last digits.
type queueView struct {
	Name   string      `json:"name"`
	Limit  int32       `json:"limit,omitempty"`
	Claims []claimView `json:"claims"`
}

type claimView struct {
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

func viewQueue(l engine.Queue) queueView {
	v := queueView{Name: l.Name, Limit: l.Limit, Claims: []claimView{}}
	for _, c := range l.Claims {
		v.Claims = append(v.Claims, claimView{
			Ticket: c.Ticket, Token: c.Ticket << engine.HandoffBits, State: c.State.String(), Mode: mode(c), Permits: c.Permits,
			Owner: c.Owner, TTL: c.TTL.Round(time.Millisecond).Seconds(), Contended: c.Contended, Revoked: c.Revoked,
		})
	}
	return v
}

// mode is what kind of claim it is, in the words of the flags.
func mode(c engine.Claim) string {
	switch {
	case c.Limit == engine.Max && c.Permits == engine.Max:
		return "exclusive"
	case c.Limit == engine.Max && c.Permits == 1:
		return "shared"
	}
	return "permits"
}

// modeText is mode with its figures.
func modeText(c engine.Claim) string {
	if m := mode(c); m != "permits" {
		return m
	}
	return fmt.Sprintf("%d of %d", c.Permits, c.Limit)
}

func stateText(c engine.Claim) string {
	switch {
	case c.Revoked:
		return "held, revoked"
	case c.State == engine.Held && c.Contended:
		return "held, wanted"
	}
	return c.State.String()
}

// ttlText is what a claim has left: another program's may have no expiry.
func ttlText(left time.Duration) string {
	if left == 0 {
		return "no expiry"
	}
	return left.Round(100 * time.Millisecond).String()
}

// sinceText is how long ago, by two machines' wall clocks: for people only.
func sinceText(since, now time.Time) string {
	if since.IsZero() {
		return "?"
	}
	return max(0, now.Sub(since)).Round(time.Second).String()
}

func countText(c engine.Queue) (held, waiting int) {
	for _, c := range c.Claims {
		if c.State == engine.Held {
			held++
		} else {
			waiting++
		}
	}
	return held, waiting
}

// firstOwner is who stands in front, in a few words.
func firstOwner(l engine.Queue) string {
	if len(l.Claims) == 0 {
		return ""
	}
	return printable(l.Claims[0].Owner.String())
}

// table lines up columns given with tabs.
func table(w io.Writer, rows ...[]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}
