package main

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"leasehold/cmd/leasehold/internal/demo"
	"leasehold/engines"
)

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

// whileRead runs f with an output whose first failed write ends the context of f. A reader
// that has gone, as head does, would end this process by SIGPIPE, and f has servers, files
// and names to remove.
func (a *app) whileRead(ctx context.Context, f func(context.Context, io.Writer) error) error {
	catch(make(chan os.Signal, 1), []os.Signal{syscall.SIGPIPE})
	ctx, end := context.WithCancel(ctx)
	defer end()
	out := &followed{answer{Writer: a.out}, end}
	switch err := f(ctx, out); {
	case out.failed == nil:
		return err
	case errors.Is(out.failed, syscall.EPIPE):
		return &signalError{syscall.SIGPIPE} // as the write would have
	}
	return &exitError{codeFailed, out.failed}
}

// followed is an output that notifies its writer when it fails.
type followed struct {
	answer
	end func()
}

func (w *followed) Write(b []byte) (int, error) {
	n, err := w.answer.Write(b)
	if err != nil {
		w.end()
	}
	return n, err
}

func (a *app) demoProcessCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "demo-process",
		Short:  "One process of a demo (demo starts it itself)",
		Hidden: true,
		Args:   arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !demo.Inside() {
				return usageError("demo-process is started by demo, not by hand")
			}
			return demo.Play(cmd.Context(), a.in, a.out)
		},
	}
}
