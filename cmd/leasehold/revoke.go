package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"leasehold"
	"leasehold/engine"
)

func (a *app) revokeCommand() *cobra.Command {
	var ticket uint64
	var now, yes bool
	cmd := &cobra.Command{
		Use:   "revoke NAME --ticket N",
		Short: "End a claim on a name",
		Long: `End the claim with that ticket, as "show NAME" shows it. A waiting claim is
removed. A holder is notified and loses the name, which is free when the holder
has let go or its TTL has passed. With --now the name is free at once, while a
holder that has not noticed yet may still use it.

revoke asks on the terminal before it does anything. If standard input is no
terminal, as in a script, it needs --yes; otherwise it does nothing and the exit
code is 64. The ticket names one claim: if that has ended by now, no other claim
ends, and the exit code is 1. It is 1, too, and nothing is revoked, if a claim that
was waiting when revoke asked holds the name when you answer.`,
		Args:              arguments(1, 1, "one name"),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("ticket") {
				return usageError("--ticket is needed: leasehold show %s shows the tickets", quoteName(args[0]))
			}
			if !yes && !term.IsTerminal(int(a.in.Fd())) {
				return usageError("standard input is no terminal, so nobody can confirm: give --yes")
			}
			return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
				return a.revoke(ctx, locks, args[0], ticket, now, yes)
			})
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&ticket, "ticket", 0, "the ticket of the claim to end")
	f.BoolVar(&now, "now", false, "do not wait for the holder to let go")
	f.BoolVar(&yes, "yes", false, "do not ask")
	return cmd
}

func (a *app) revoke(ctx context.Context, locks *leasehold.Client, name string, ticket uint64, now, yes bool) error {
	whose, state, err := claimOf(ctx, locks, name, ticket)
	if err != nil {
		return err
	}
	if !yes {
		question := fmt.Sprintf("Revoke %s (%s, ticket %d) from %s?", whose, state, ticket, quoteName(name))
		if now && state == engine.Held.String() {
			question = fmt.Sprintf("Revoke %s (ticket %d) from %s at once, while it may still be at work?", whose, ticket, quoteName(name))
		}
		if ok, err := a.ask(ctx, question); err != nil || !ok {
			return err
		}
		// An answer takes its time. Who agreed to end a wait has not agreed to end a hold.
		_, by, err := claimOf(ctx, locks, name, ticket)
		if err != nil {
			return err
		}
		if by != state {
			return &exitError{codeFailed, fmt.Errorf("%s: nothing was revoked: ticket %d was %s when you were asked and is %s by now: see \"leasehold show\", and decide anew", quoteName(name), ticket, state, by)}
		}
	}
	revoke := locks.Revoke
	if now {
		revoke = locks.RevokeNow
	}
	if err := revoke(ctx, name, ticket); err != nil {
		return err
	}
	a.say("%s: revoked %s (%s, ticket %d) at %s", quoteName(name), whose, state, ticket, time.Now().Format(time.RFC3339))
	return nil
}

// claimOf is whose claim has the ticket, and what that claim does.
func claimOf(ctx context.Context, locks *leasehold.Client, name string, ticket uint64) (whose, state string, err error) {
	l, err := locks.Queue(ctx, name)
	if err != nil {
		return "", "", err
	}
	for _, c := range l.Claims {
		if c.Ticket == ticket {
			return printable(c.Owner.String()), c.State.String(), nil
		}
	}
	return "", "", &exitError{codeFailed, fmt.Errorf("%s: nobody has the ticket %d, or not any more: %w", quoteName(name), ticket, engine.ErrNoClaim)}
}

// ask asks a person, and nobody else.
func (a *app) ask(ctx context.Context, question string) (bool, error) {
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // a read that a signal must not have to wait for
		line, _ := bufio.NewReader(io.LimitReader(a.in, 100)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case got := <-answer:
		if got == "y" || got == "yes" {
			return true, nil
		}
		return false, &exitError{codeFailed, fmt.Errorf("nothing was revoked: you did not answer yes")}
	case <-ctx.Done():
		fmt.Fprintln(a.err)
		return false, ctx.Err()
	}
}
