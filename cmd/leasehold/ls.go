package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/view"
)

func (a *app) lsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List the names that are held or waited for",
		Long: `List the names that are held or waited for, all of them or those that begin
with PREFIX. leasehold reads name by name: the list may not have been true at any
one moment. FIRST is the owner of the first claim, and HOLDS are the names that it
held already when it asked.`,
		Args:              arguments(0, 1, "one prefix"),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
				queues, err := readQueues(ctx, locks, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if !asJSON {
					return a.printQueues(queues)
				}
				views := []view.Queue{}
				for _, l := range queues {
					views = append(views, view.Of(l))
				}
				return writeJSON(a.out, views, "  ")
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array; tickets and tokens are strings of digits")
	return cmd
}

// readQueues collects and sorts the queues whose names begin with prefix.
func readQueues(ctx context.Context, locks *leasehold.Client, prefix string) (queues []engine.Queue, err error) {
	for l, err := range locks.Queues(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		queues = append(queues, l)
	}
	slices.SortFunc(queues, func(a, b engine.Queue) int { return strings.Compare(a.Name, b.Name) })
	return queues, nil
}

func (a *app) printQueues(queues []engine.Queue) error {
	if len(queues) == 0 {
		return nil
	}
	var owners []engine.Owner
	rows := [][]string{{"NAME", "MODE", "HELD", "WAITING", "FIRST", "TICKET", "FOR"}}
	for _, l := range queues {
		held, waiting := view.Count(l)
		first := l.Claims[0]
		rows = append(rows, []string{
			quoteName(l.Name), view.ModeText(first), fmt.Sprint(held), fmt.Sprint(waiting),
			firstOwner(l), fmt.Sprint(first.Ticket), sinceText(first.Owner.Since, time.Now()),
		})
		owners = append(owners, first.Owner)
	}
	return table(a.out, withHolds(rows, owners)...)
}

// completeName offers the names in use to a shell.
func (a *app) completeName(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, directive
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Second)
	defer cancel()
	locks, err := a.open(ctx, leasehold.Options{FailFast: true})
	if err != nil {
		return nil, directive
	}
	defer locks.Close()
	var names []string
	for l, err := range locks.Queues(ctx, prefix) {
		if err != nil || len(names) == maxCompletions {
			break
		}
		if l.Name == printable(l.Name) {
			names = append(names, l.Name)
		}
	}
	return names, directive
}

// maxCompletions bounds what is offered: more is no help.
const maxCompletions = 200
