package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/view"
)

func (a *app) showCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show the queue of one name: who holds it, who waits",
		Long: `Show the queue of one name, in order: who holds it and who waits. "revoke" takes
a ticket. Each owner describes itself, and lists the names that it held already
when it asked.`,
		Args:              arguments(1, 1, "one name"),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
				l, err := locks.Queue(ctx, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(a.out, view.Of(l), "  ")
				}
				return printQueue(a.out, l, time.Now())
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object; tickets and tokens are strings of digits")
	return cmd
}

func printQueue(w io.Writer, l engine.Queue, now time.Time) error {
	if len(l.Claims) == 0 {
		_, err := fmt.Fprintf(w, "%s: nobody holds it\n", quoteName(l.Name))
		return err
	}
	held, waiting := view.Count(l)
	fmt.Fprintf(w, "%s: %d hold it, %d wait\n", quoteName(l.Name), held, waiting)
	var owners []engine.Owner
	rows := [][]string{{"TICKET", "STATE", "MODE", "OWNER", "SINCE", "TTL LEFT"}}
	for _, c := range l.Claims {
		rows = append(rows, []string{
			fmt.Sprint(c.Ticket), view.StateText(c), view.ModeText(c), printable(c.Owner.String()),
			sinceText(c.Owner.Since, now), ttlText(c.TTL),
		})
		owners = append(owners, c.Owner)
	}
	return table(w, withHolds(rows, owners)...)
}
