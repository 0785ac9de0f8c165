package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/engines"
	"leasehold/service/ui"
)

func (a *app) uiCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show who holds and who waits as pages in a browser",
		Long: `Show the queues of the engine as pages, on this machine, until a signal asks
leasehold to end: who holds what, who waits, why, and what happened. The pages
are read-only and follow changes.

The engine is read twice a second while a page is open, however many are, and
not while none is. The history on the pages is what this command saw.

Every user of this machine can open the pages: there is no password. So
--listen takes only an address of this machine's own. For other machines, and
to revoke claims from pages, use "leasehold serve", which has the pages at /ui.`,
		Example: `  leasehold ui --engine @/etc/leasehold.url
  xdg-open http://127.0.0.1:7421/`,
		Args:              arguments(0, 0, ""),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLoopback(listen); err != nil {
				return err
			}
			return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
				return a.showPages(ctx, locks, listen)
			})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7421", "address and port; port 0 is any free one")
	return cmd
}

// checkLoopback refuses an address that others reach.
func checkLoopback(listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return usageError("--listen: %w: give an address and a port, such as 127.0.0.1:7421", err)
	}
	if addr, err := netip.ParseAddr(host); host == "localhost" || err == nil && addr.IsLoopback() {
		return nil
	}
	return usageError("--listen %s can be reached from other machines, and everybody there could read the pages without a password: give an address such as 127.0.0.1:7421, or use \"leasehold serve --access\"", listen)
}

// showPages serves pages until ctx ends.
func (a *app) showPages(ctx context.Context, locks *leasehold.Client, listen string) error {
	rawURL, err := a.engineURL()
	if err != nil {
		return err
	}
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", listen)
	if err != nil {
		return &exitError{codeFailed, fmt.Errorf("--listen: %w", err)}
	}
	pages := ui.New(ui.Options{Source: locks, Engine: cmp.Or(engines.Redact(rawURL), "the directory of this machine"), Loopback: true})
	h := &http.Server{
		Handler: pages, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: log.New(sayer{a}, "", 0),
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		pages.Run(ctx)
	}()
	served := make(chan error, 1)
	go func() { served <- h.Serve(ln) }()
	a.say("shows the queues at http://%s/", ln.Addr())
	select {
	case err = <-served:
	case <-ctx.Done(): // it was asked to end
		err = h.Close()
		<-served
	}
	stop()
	<-reading
	return err
}
