package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/cmd/leasehold/internal/exporter"
)

func (a *app) exporterCommand() *cobra.Command {
	var o exporter.Options
	var listen string
	var remote bool
	cmd := &cobra.Command{
		Use:   "exporter",
		Short: "Show Prometheus who holds and who waits",
		Long: `Answer scrapes of Prometheus at /metrics, until a signal asks leasehold to end.
They show, for each --prefix: how many names are in use, how many claims hold
and wait, and since when the oldest of them does. They show too whether the
engine could be read.

The engine is read when somebody scrapes. One reading serves all scrapes for
--every. A scrape is answered within --within: if the engine does not answer by
then, leasehold_exporter_engine_up is 0 and the other figures are left out.

Names are not labels, so the number of time series does not grow with them.
--by-name makes series for a few names, those whose waiters have waited longest.
A reading looks at --max-names names of each prefix at most;
leasehold_exporter_cut is 1 if there are more.

Everybody who can connect can read the figures: there is no password. So
--listen takes only an address of this machine's own, unless --remote is given.`,
		Example: `  leasehold exporter --engine @/etc/leasehold.url --prefix order/ --prefix mail/
  curl http://127.0.0.1:10517/metrics`,
		Args:              arguments(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkListen(listen, remote); err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return usageError("%w", err)
			}
			o.Show = quoteName
			o.Open = func(ctx context.Context) (exporter.Engine, error) { return a.open(ctx, leasehold.Options{}) }
			return untilAsked(cmd.Context(), func(ctx context.Context) error { return a.export(ctx, o, listen) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:10517", "address and port; port 0 is any free one")
	f.BoolVar(&remote, "remote", false, "allow a --listen that other machines reach")
	f.StringArrayVar(&o.Prefixes, "prefix", nil, "read the names that begin with this, as a value of the label \"prefix\" (default all names, with an empty one); may be repeated")
	f.IntVar(&o.ByName, "by-name", 0, fmt.Sprintf("for how many names there are series of their own, %d at most", exporter.MaxByName))
	f.IntVar(&o.MaxNames, "max-names", 10_000, "how many names of a prefix are read at most")
	f.DurationVar(&o.Every, "every", 5*time.Second, "how long one reading of the engine serves all scrapes")
	f.DurationVar(&o.Within, "within", 5*time.Second, "how long a reading may take")
	return cmd
}

// checkListen refuses an address that others reach, unless that is meant.
func checkListen(listen string, remote bool) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usageError("--listen: %w: give an address and a port, such as 127.0.0.1:10517", err)
	}
	if addr, err := netip.ParseAddr(host); remote || host == "localhost" || err == nil && addr.IsLoopback() {
		return nil
	}
	return usageError("--listen %s can be reached from other machines, and everybody there could read the figures without a password: give an address such as 127.0.0.1:10517, or --remote if that is meant", listen)
}

// export answers scrapes until ctx ends. Only an engine that can never be opened ends it:
// one that does not answer yet is what an exporter is there to show.
func (a *app) export(ctx context.Context, o exporter.Options, listen string) (err error) {
	o.Failed = a.sayReadings
	x, err := exporter.New(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return &exitError{codeFailed, fmt.Errorf("--listen: %w", err)}
	}
	if err := x.Read(); err != nil {
		if codeOf(err) == codeUsage {
			return errors.Join(err, listener.Close())
		}
		a.sayReadings(err)
	}
	a.say("answers scrapes at http://%s/metrics", listener.Addr())
	return x.Serve(ctx, listener, log.New(sayer{a}, "", 0))
}

// sayReadings says why the engine cannot be read, which the figures do not show. nil is
// that it can be read again.
func (a *app) sayReadings(err error) {
	if err == nil {
		a.say("the engine can be read again")
		return
	}
	a.say("the engine cannot be read, scrapes try again: %v", err)
}

// sayer says what a logger writes.
type sayer struct{ *app }

func (s sayer) Write(b []byte) (int, error) {
	s.say("%s", string(b[:max(0, len(b)-1)]))
	return len(b), nil
}
