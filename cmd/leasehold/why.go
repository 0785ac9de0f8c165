package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/engine"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why NAME",
		Short: "Say why NAME is not free: its holders, the names they wait for, and so on",
		Long: `Follow NAME to its holders, from each holder to the names that it waits for, and so
on. It stops at callers that wait for nothing. If it comes back to a name, it prints
"a cycle". It believes what callers said that they hold when they asked. It reads
every queue, one after the other: the answer may be wrong by the time it is
printed. The library itself breaks a cycle; so does "revoke" of a waiting claim.`,
		Args:              arguments(1, 1, "one name"),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := engine.CheckName(args[0]); err != nil {
				return err
			}
			return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
				// Queues leaves out what is none: somebody else's data in its place.
				if _, err := locks.Queue(ctx, args[0]); err != nil {
					return err
				}
				s, err := readSnapshot(ctx, locks)
				if err != nil {
					return err
				}
				return s.printWhy(a.out, args[0])
			})
		},
	}
}

// printWhy prints the tree of holders and what they wait for, each line of it once.
func (s *snapshot) printWhy(w io.Writer, name string) error {
	var b strings.Builder
	seen := map[string]bool{}
	var notify func(name string, depth int)
	notify = func(name string, depth int) {
		indent := strings.Repeat("  ", depth)
		l := s.byName[name]
		if len(l.Claims) == 0 {
			fmt.Fprintf(&b, "%s%s: nobody holds it\n", indent, quoteName(name))
			return
		}
		seen[name] = true
		for _, c := range l.Claims {
			if c.State != engine.Held {
				continue
			}
			fmt.Fprintf(&b, "%s%s is held by %s (%s, ticket %d)", indent, quoteName(name), printable(c.Owner.String()), modeText(c), c.Ticket)
			waits := s.under[claimKey{name, c.Ticket}]
			if len(waits) == 0 {
				b.WriteString(", who waits for nothing here\n")
				continue
			}
			b.WriteString("\n")
			for _, v := range waits {
				fmt.Fprintf(&b, "%s  who waits for %s (ticket %d)", indent, quoteName(v.Name), v.Ticket)
				switch {
				case s.inCycle(v) && seen[v.Name]:
					b.WriteString(": a cycle\n")
				case seen[v.Name]:
					b.WriteString(": see above\n")
				default:
					b.WriteString("\n")
					notify(v.Name, depth+1)
				}
			}
		}
	}
	notify(name, 0)
	_, err := io.WriteString(w, b.String())
	return err
}
