// Monitoring takes the picture of docs/monitoring.md: what a real Prometheus shows of a
// program that locks on a real Redis, which is stopped for a while.
//
//	go run ./lab/monitoring -write docs/plots/monitoring.png
//
// It needs redis-server, prometheus and chromium, which Debian has. Chromium is for this
// picture alone, so make deps does not install it.
//
// The tests of this folder check the alert rules and the dashboard in monitoring/, and
// compare docs/monitoring.md with them. One test has an engine killed under a real
// Prometheus, an SDK of OpenTelemetry and a log, and reads it in all of them.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

func main() {
	to := flag.String("write", "docs/plots/monitoring.png", "where to write the picture")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := take(ctx, *to); err != nil {
		fmt.Fprintln(os.Stderr, "monitoring:", err)
		os.Exit(1)
	}
}
