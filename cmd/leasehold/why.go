package main

import (
	"context"
	"io"

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
				_, err = io.WriteString(a.out, s.Why(args[0]).Text(quoteName, printable))
				return err
			})
		},
	}
}
