package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/internal/door"
)

func (a *app) acquireCommand() *cobra.Command {
	o := &order{}
	var nonblock bool
	cmd := &cobra.Command{
		Use:   "acquire NAME",
		Short: "Obtain a name and print a handle for it",
		Long: `Obtain NAME and print a handle, alone on standard output. NAME stays held until
"release", or until its TTL has passed without a "renew". leasehold does not
notice if the script that holds NAME dies before: use "run" if you can. A job
that is stopped while it waits (Ctrl-Z) loses its place within seconds.

A handle is a secret: anybody who has it can renew and release. "renew" and
"release" take it as an argument, from LEASEHOLD_HANDLE, or with - from standard
input. Every user of the machine can read arguments.`,
		Example: `  LEASEHOLD_HANDLE=$(leasehold acquire deploy --ttl 10m) || exit
  export LEASEHOLD_HANDLE
  ./step-one && leasehold renew && ./step-two
  leasehold release`,
		Args:              arguments(1, 1, "one name"),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			if err := a.fillClaim(cmd, o, nonblock); err != nil {
				return err
			}
			if a.nobodyReads() {
				return usageError("standard output is closed or %s: nobody would have the handle, and %s would stay held until its TTL has passed; read the output", os.DevNull, quoteName(o.Name))
			}
			return untilAsked(cmd.Context(), func(ctx context.Context) error {
				if _, err := a.nested(ctx, o); err != nil {
					return err
				}
				return a.acquire(ctx, o)
			})
		},
	}
	claimFlags(cmd, o, &nonblock)
	return cmd
}

func (a *app) acquire(ctx context.Context, o *order) error {
	signal.Ignore(syscall.SIGPIPE) // a handle that nobody reads is an error to act on
	notice := &engineNotice{app: a, name: o.Name}
	defer notice.close()
	if err := enoughFiles(); err != nil {
		return err
	}
	eng, err := a.openEngine(ctx, o)
	if err != nil {
		return err
	}
	locks, err := newClient(eng, leasehold.Options{TTL: o.TTL, Label: o.Label, Require: o.Require, NoLocalHandoff: true, Observer: notice.observe})
	if err != nil {
		return err
	}
	defer locks.Close()
	held, err := outerHolds()
	if err != nil {
		return err
	}
	lease, err := a.lock(door.WithHolds(ctx, asHolds(held)), o, locks.With(leasehold.LockOptions{Wait: o.Wait, Detached: true}))
	if err != nil {
		return err
	}
	h, err := lease.Detach()
	if err != nil && !errors.Is(err, leasehold.ErrUnknown) {
		return err
	}
	if err != nil {
		a.say("%s: held, perhaps for less than %v: the engine did not confirm the TTL; renew it soon", quoteName(o.Name), o.lifetime(locks.Guarantees()))
	}
	if _, err := fmt.Fprintln(a.out, string(h)); err != nil {
		// Nobody has the handle, so nobody could give the name back.
		if lease, again := locks.Adopt(context.WithoutCancel(ctx), h); again == nil {
			err = errors.Join(err, lease.Unlock())
		}
		return &exitError{codeFailed, fmt.Errorf("print the handle: %w", err)}
	}
	return nil
}

// nobodyReads reports whether what is printed is lost for certain. A standard
// output that was closed is that device by now: Go opens it in its place, lest
// the next file that is opened be taken for it.
func (a *app) nobodyReads() bool {
	f, ok := a.out.(*os.File)
	if !ok {
		return false
	}
	out, err := f.Stat()
	if err != nil {
		return true
	}
	void, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(out, void)
}

func (a *app) renewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "renew [HANDLE | -]",
		Short: "Keep a name from acquire for another TTL",
		Long: `Keep a name that "acquire" obtained for another TTL, as long as the first. The
exit code is 76 if the lease is lost. Without HANDLE, renew reads the handle from
LEASEHOLD_HANDLE; with - it reads it from standard input.`,
		Args:              arguments(0, 1, "one handle"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.adopt(cmd, args, func(lease *leasehold.Lease) error {
				_, err := lease.Detach()
				return err
			})
		},
	}
}

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "release [HANDLE | -]",
		Short: "Give back a name from acquire",
		Long: `Give back a name that "acquire" obtained. The exit code is 76 if the lease was
lost before. Without HANDLE, release reads the handle from LEASEHOLD_HANDLE;
with - it reads it from standard input.`,
		Args:              arguments(0, 1, "one handle"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.adopt(cmd, args, (*leasehold.Lease).Unlock)
		},
	}
}

// adopt does something with the lease of a handle.
func (a *app) adopt(cmd *cobra.Command, args []string, do func(*leasehold.Lease) error) error {
	h, err := a.handle(args)
	if err != nil {
		return err
	}
	return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
		lease, err := locks.Adopt(ctx, h)
		switch {
		case errors.Is(err, leasehold.ErrHandle):
			return usageError("this is not a handle: pass the handle that acquire printed, unchanged: as an argument, in LEASEHOLD_HANDLE, or with - on standard input")
		case errors.Is(err, leasehold.ErrLost):
			return &exitError{codeLost, errors.New("the lease of this handle is lost: it was released, revoked, or not renewed in time; acquire the name again")}
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, leasehold.ErrUnavailable) {
			return &exitError{codeUsage, err} // of another kind, or for another engine
		}
		if err != nil {
			return err
		}
		return do(lease)
	})
}

// handle reads one, from wherever it was given.
func (a *app) handle(args []string) (leasehold.Handle, error) {
	text := os.Getenv("LEASEHOLD_HANDLE")
	if len(args) > 0 {
		text = args[0]
	}
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(a.in, maxHandle))
		if err != nil {
			return "", usageError("read the handle: %w", err)
		}
		text = string(b)
	}
	h := leasehold.Handle(strings.TrimSpace(text))
	if h == "" {
		return "", usageError("no handle given: pass the one that acquire printed: as an argument, in LEASEHOLD_HANDLE, or with - on standard input")
	}
	return h, nil
}

// maxHandle is more than the handle of the longest name has.
const maxHandle = 8 << 10
