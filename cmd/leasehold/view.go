package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"leasehold/engine"
)

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
