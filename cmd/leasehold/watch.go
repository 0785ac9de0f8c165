package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/view"
)

func (a *app) watchCommand() *cobra.Command {
	var asJSON bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Follow who holds and who waits",
		Long: `Follow who holds and who waits, for all names or those that begin with PREFIX,
until it is interrupted or its reader is gone. On a terminal watch draws the list
anew; elsewhere it writes one line per change. It polls (--every): it does not see
a claim that comes and goes between two polls.`,
		Args:              arguments(0, 1, "one prefix"),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < minEvery || every > maxEvery {
				return usageError("--every %v is outside %v to %v: give a time in between", every, minEvery, maxEvery)
			}
			return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
				w := watcher{app: a, locks: locks, prefix: strings.Join(args, ""), every: every}
				screen, ok := a.out.(*os.File)
				if ok {
					w.deserted = deserted(screen)
				}
				switch {
				case asJSON:
					w.show = w.changes(func(c change) error { return writeJSON(a.out, c, "") })
				case ok && term.IsTerminal(int(screen.Fd())):
					w.show = w.draw(screen)
				default:
					w.show = w.changes(func(c change) error {
						_, err := fmt.Fprintln(a.out, c.text())
						return err
					})
				}
				return w.run(ctx)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write one JSON object per change and line")
	cmd.Flags().DurationVar(&every, "every", time.Second, "how often to poll")
	return cmd
}

// Bounds of --every: looking costs the engine a read of every name.
const (
	minEvery = 50 * time.Millisecond
	maxEvery = time.Hour
)

type watcher struct {
	*app
	locks  *leasehold.Client
	prefix string
	every  time.Duration
	show   func([]engine.Queue, time.Time) error

	deserted <-chan struct{} // closed when nobody reads any more; nil: unknown
}

// run looks until the context ends, which is how watching ends.
func (w *watcher) run(ctx context.Context) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	down := false
	for {
		queues, err := readQueues(ctx, w.locks, w.prefix)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !down:
			down = true
			w.say("the engine does not answer, polling again every %v: %v", w.every, err)
		case err == nil:
			if down {
				down = false
				w.say("the engine answers again")
			}
			if err := w.show(queues, time.Now()); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-w.deserted:
			return &signalError{syscall.SIGPIPE} // as the next write would
		case <-ctx.Done():
			return nil
		}
	}
}

// draw shows the queues on a terminal, each time from the top: every row is
// cleared as it is written, the rest of the screen after the last, so that
// nothing flickers.
func (w *watcher) draw(screen *os.File) func([]engine.Queue, time.Time) error {
	return func(queues []engine.Queue, now time.Time) error {
		width, height, err := term.GetSize(int(screen.Fd()))
		if err != nil || width < 1 || height < 2 {
			width, height = 80, 24
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s  %d names with prefix %q  (Ctrl-C ends)\n\n", now.Format(time.TimeOnly), len(queues), w.prefix)
		for _, l := range queues {
			if err := printQueue(&b, l, now); err != nil {
				return err
			}
			b.WriteString("\n")
		}
		rows := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
		if len(rows) > height-1 {
			rows = append(rows[:height-2], fmt.Sprintf("... and %d more rows", len(rows)-height+2))
		}
		out := "\x1b[H"
		for _, row := range rows {
			if r := []rune(row); len(r) > width {
				row = string(r[:width])
			}
			out += row + "\x1b[K\r\n"
		}
		_, err = io.WriteString(screen, out+"\x1b[J")
		return err
	}
}

// change is one thing that happened in a queue between two looks.
type change struct {
	At    time.Time  `json:"at"`
	Name  string     `json:"name"`
	What  string     `json:"what"` // waits, holds, revoked, left
	Claim view.Claim `json:"claim"`
	owner string
}

func (c change) text() string {
	return fmt.Sprintf("%s %s %s ticket %d %s %s",
		c.At.Format(time.RFC3339), quoteName(c.Name), c.What, c.Claim.Ticket, c.Claim.Mode, printable(c.owner))
}

// changes compares each look with the one before.
func (w *watcher) changes(notify func(change) error) func([]engine.Queue, time.Time) error {
	type key struct {
		name   string
		ticket uint64
	}
	before := map[key]change{}
	return func(queues []engine.Queue, now time.Time) error {
		seen := map[key]bool{}
		for _, l := range queues {
			for i, v := range view.Of(l).Claims {
				k := key{l.Name, v.Ticket}
				seen[k] = true
				what := "waits"
				switch {
				case v.Revoked:
					what = "revoked"
				case v.State == engine.Held.String():
					what = "holds"
				}
				if before[k].What == what {
					continue
				}
				c := change{now, l.Name, what, v, l.Claims[i].Owner.String()}
				before[k] = c
				if err := notify(c); err != nil {
					return err
				}
			}
		}
		for k, c := range before {
			if !seen[k] {
				delete(before, k)
				c.At, c.What = now, "left"
				if err := notify(c); err != nil {
					return err
				}
			}
		}
		return nil
	}
}
