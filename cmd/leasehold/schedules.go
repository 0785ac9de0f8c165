//go:build !no_redis && !no_zookeeper

package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"leasehold/cmd/leasehold/internal/demo"
	"leasehold/cmd/leasehold/internal/together"
	"leasehold/engines"
)

const aboutSchedules = `

The commands below show how the locks of articles fail, each by one schedule.
Each plays the same schedule with leasehold, too.`

// scheduleCommands are the demos that show how a hand-written lock fails.
func (a *app) scheduleCommands() (commands []*cobra.Command) {
	for _, d := range demo.All() {
		var server string
		cmd := &cobra.Command{
			Use:   d.Name,
			Short: d.Short,
			Long: d.Short + `.

Several processes play the schedule twice: first with the lock as articles have
it, then with leasehold. A timeline shows which of them believe to hold. The
schedule runs on a server that it starts and ends, or on --server, where it uses
names under a random prefix and removes them at the end.

Exit code 0: the hand-written lock failed, and leasehold did not.`,
			Args: arguments(0, 0, ""),
			RunE: func(cmd *cobra.Command, _ []string) error {
				return untilAsked(cmd.Context(), func(ctx context.Context) error { return a.playDemo(ctx, d, server) })
			},
		}
		cmd.Flags().StringVar(&server, "server", "", "URL of a server to use, as for --engine (default: start one)")
		commands = append(commands, cmd)
	}
	return commands
}

func (a *app) playDemo(ctx context.Context, d demo.Demo, server string) error {
	switch {
	case a.require != "":
		return usageError("--require asks for promises of the chosen engine, which this demo does not use: leave it out")
	case a.chosen():
		return usageError("--engine does not choose the server of this demo: give --server")
	}
	if engines.HasSecret(server) {
		return usageError("--server %s has a password, which every user of this machine could read: put the URL into a file and give --server @file", engines.Redact(server))
	}
	server, err := readURL(server)
	if err != nil {
		return err
	}
	screen, ok := a.out.(*os.File)
	color := ok && term.IsTerminal(int(screen.Fd())) && os.Getenv("NO_COLOR") == ""
	var result demo.Result
	err = a.whileRead(ctx, func(ctx context.Context, out io.Writer) (err error) {
		result, err = d.Run(ctx, out, demo.Options{Server: server, Color: color})
		return err
	})
	switch {
	case errors.Is(err, demo.ErrServer):
		return usageError("%w", err)
	case err != nil:
		return err
	}
	if !result.Shown() {
		return &exitError{codeFailed, errors.New("the demo did not show what it is about: " + result.Seen)}
	}
	return nil
}

func (a *app) demoProcessCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use:    "demo-process",
		Short:  "One process of a demo (demo starts it itself)",
		Hidden: true,
		Args:   arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !together.Inside() {
				return usageError("demo-process is started by demo, not by hand")
			}
			return demo.Play(cmd.Context(), a.in, a.out)
		},
	}}
}
