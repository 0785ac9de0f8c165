package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"leasehold"
	"leasehold/elect"
	"leasehold/engine"
)

func (a *app) electCommand() *cobra.Command {
	o := &order{Term: 1, Conflict: codeConflict, Lost: codeLost}
	cmd := &cobra.Command{
		Use:   "elect NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command where this process leads, and again after a loss",
		Long: `Stand for election to NAME and run COMMAND while this process leads. Of all that
stand for one NAME, one runs its COMMAND at a time. COMMAND finds LEASEHOLD_NAME
and LEASEHOLD_TOKEN in its environment. The token is empty on an engine without
fencing.

If the lead is lost, or somebody revokes it, leasehold ends COMMAND as "run" does,
stands again behind all others, and runs COMMAND anew when it leads. When COMMAND
ends by itself, leasehold gives the lead back and exits with its code. A TERM is
passed on to COMMAND, and leasehold does not stand again after it.

Two candidates wait behind the leader. The others read the queue once in 75 s.
"leader" prints who leads.
` + killedHelp + `
leasehold exits with the code of COMMAND, or with one of these:

` + codesHelp + `

An engine that cannot be reached at the start is an error. After that leasehold
tries again and again.`,
		Example: `  leasehold elect scheduler --value "$HOSTNAME:8080" -- ./scheduler
  leasehold leader scheduler`,
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.fillRun(cmd, o, args, false); err != nil {
				return err
			}
			// What is wrong with the value is said before anybody waits.
			if err := a.inspect(cmd, func(_ context.Context, locks *leasehold.Client) error {
				_, err := o.candidate(locks)
				return err
			}); err != nil {
				return err
			}
			_, err := a.nested(cmd.Context(), o)
			if err == nil {
				a.code, err = a.runOrder(cmd.Context(), o)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Label, "value", "", "text that this process publishes while it leads, such as its address")
	f.DurationVar(&o.TTL, "ttl", 0, fmt.Sprintf("how long the lead outlives the last sign of life of this process (default %v, or the engine's longest)", leasehold.DefaultTTL))
	f.StringVar(&o.Log, "log", "", logHelp)
	f.BoolVar(&o.All, "hold-descendants", false, "lead, and wait, until all processes that COMMAND started have ended; only on Linux")
	return cmd
}

func (o *order) candidate(locks *leasehold.Client) (*elect.Election, error) {
	e, err := elect.New(locks, o.Name, elect.Options{Value: o.Label, TTL: o.lifetime(locks.Guarantees())})
	if err != nil {
		return nil, usageError("--value or --ttl: %w", err)
	}
	return e, nil
}

// campaign waits until this process leads.
func (o *order) campaign(ctx context.Context, locks *leasehold.Client) (*leasehold.Lease, error) {
	e, err := o.candidate(locks)
	if err != nil {
		return nil, err
	}
	return e.Campaign(ctx)
}

// standsAgain reports whether standing again mends what ended a term, unless somebody asked
// the command to end. It does not mend an engine that could not be reached even once: then the
// URL may be wrong.
func (k *keeper) standsAgain(err error) bool {
	if k.order.Term == 0 || err == nil || k.wasAsked() {
		return false
	}
	switch codeOf(err) {
	case codeLost:
		return true
	case codeUnavailable:
		return k.order.Term > 1
	}
	return false
}

// wasAsked reports whether somebody asked the command to end. A signal counts that came when
// the command had ended already, since nobody else reads it then.
func (k *keeper) wasAsked() bool {
	for {
		select {
		case sig := <-k.launcher.signals():
			k.asked = k.asked || slices.Contains(asking, os.Signal(sig))
		default:
			return k.asked
		}
	}
}

// Pauses before a candidate stands again: they double while terms end at once.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// candidacy does one term after the other, or the one run of what is no candidate. A signal
// that asks to end counts between two terms too.
func candidacy[S os.Signal](a *app, o *order, signals <-chan S, term func() (code int, again bool, err error)) (int, error) {
	for pause := firstPause; ; {
		began := time.Now()
		code, again, err := term()
		if !again {
			return code, err
		}
		if err != nil {
			a.fail(err)
		}
		if time.Since(began) > longestPause {
			pause = firstPause
		}
		a.say("%s: stands for election again in %v", quoteName(o.Name), pause)
		o.Term++
		for over := time.After(pause); over != nil; {
			select {
			case <-over:
				over = nil
			case sig := <-signals:
				if sig := os.Signal(sig); slices.Contains(asking, sig) {
					return codeSignal + int(sig.(syscall.Signal)), nil
				}
			}
		}
		pause = min(2*pause, longestPause)
	}
}

func (a *app) leaderCommand() *cobra.Command {
	var asJSON, follow bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "leader NAME",
		Short: "Print who leads",
		Long: `Print what the leader of NAME published (--value of "elect"), or its host and
process if that is nothing. leasehold exits with 1 if nobody leads. The value is
untrusted text: every program that may write to the engine can write one.

With --follow leasehold goes on, and prints a line after each change: an empty one
if nobody leads. It polls (--every).`,
		Args:              arguments(1, 1, "one name"),
		ValidArgsFunction: a.completeName,
		RunE: func(cmd *cobra.Command, args []string) error {
			if every < minLook || every > maxEvery {
				return usageError("--every %v is outside %v to %v: give a time in between", every, minLook, maxEvery)
			}
			show := func(l elect.Leader) error {
				if asJSON {
					return writeJSON(a.out, viewLeader(l), "")
				}
				_, err := fmt.Fprintln(a.out, leaderText(l))
				return err
			}
			return a.inspect(cmd, func(ctx context.Context, locks *leasehold.Client) error {
				e, err := elect.New(locks, args[0], elect.Options{Every: every})
				switch {
				case err != nil:
					return err
				case follow:
					return a.eachLeader(ctx, e, show)
				}
				l, err := e.Leader(ctx)
				if errors.Is(err, elect.ErrNoLeader) {
					return &exitError{codeFailed, fmt.Errorf("%s: %w", quoteName(args[0]), elect.ErrNoLeader)}
				}
				if err != nil {
					return err
				}
				return show(l)
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&asJSON, "json", false, "print a JSON object on a line; tickets are strings of digits")
	f.BoolVar(&follow, "follow", false, "go on, and print each change")
	f.DurationVar(&every, "every", 5*time.Second, "how often --follow polls")
	return cmd
}

// minLook is the least that elect takes.
const minLook = 100 * time.Millisecond

// eachLeader shows each change until the context ends, which is how following ends.
func (a *app) eachLeader(ctx context.Context, e *elect.Election, show func(elect.Leader) error) error {
	for l, err := range e.Observe(ctx) {
		if err != nil {
			a.say("the engine does not answer, polling again and again: %v", err)
		} else if err := show(l); err != nil {
			return err
		}
	}
	return nil
}

// leaderView is a leader as --json shows it.
type leaderView struct {
	Value  string `json:"value"`
	Host   string `json:"host"`
	PID    int    `json:"pid"`
	Ticket string `json:"ticket"`
	Token  string `json:"token"` // its first
}

func viewLeader(l elect.Leader) *leaderView {
	if l.Ticket == 0 {
		return nil
	}
	return &leaderView{
		Value: l.Value, Host: l.Host, PID: l.PID,
		Ticket: strconv.FormatUint(l.Ticket, 10), Token: strconv.FormatUint(l.Ticket<<engine.HandoffBits, 10),
	}
}

// leaderText is a leader on a line of its own.
func leaderText(l elect.Leader) string {
	switch {
	case l.Ticket == 0:
		return ""
	case l.Value != "":
		return printable(l.Value)
	case l.Host == "" && l.PID == 0:
		return fmt.Sprintf("ticket %d", l.Ticket)
	}
	return printable(engine.Owner{Host: l.Host, PID: l.PID}.String())
}
