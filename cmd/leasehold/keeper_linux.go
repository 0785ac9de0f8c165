package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// platformCommands are those that only exist here: the keeper. It is told the
// numbers of its end of the wire and of the page it shares.
func (a *app) platformCommands() []*cobra.Command {
	return []*cobra.Command{a.reapCommand(), {
		Use:    "keep WIRE PAGE -- NAME COMMAND [ARGUMENT...]",
		Short:  "Keep the lease of a run (leasehold starts this itself)",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			byHand := usageError("keep is started by run, not by hand")
			if cmd.ArgsLenAtDash() != 2 || len(args) < 4 {
				return byHand
			}
			w, page, err := inherited(args[0], args[1])
			if err != nil {
				return byHand
			}
			callMyself("leasehold")
			m, _, err := w.receive()
			if err != nil || m.Order == nil {
				return fmt.Errorf("no order came: %w", err)
			}
			m.Order.Command = args[3:]
			if err := a.logAs(m.Order.Log); err != nil {
				return err
			}
			end, again, err := a.keepFor(cmd, m.Order, w, page)
			if err != nil {
				a.code = a.fail(err)
			} else {
				a.code = end.code()
			}
			w.send(message{Ended: &status{Code: a.code, Signal: end.Signal, Again: again}}, nil)
			return nil
		},
	}}
}

func (a *app) keepFor(cmd *cobra.Command, o *order, w *pipe, page *sharedDeadline) (_ status, again bool, _ error) {
	f := &remoteLauncher{pipe: w, pid: os.Getppid(), page: page, sigs: make(chan syscall.Signal, 16), dead: make(chan struct{})}
	f.listen()
	g, err := newGroup(page)
	if err != nil {
		return status{}, false, err
	}
	defer g.close()
	k := &keeper{app: a, order: o, launcher: f, run: func(o *order, env []string, life *os.File) (command, error) {
		return f.start(g, o, env, life)
	}}
	end, err := k.keep(cmd.Context())
	// Nothing is started any more. Caught, it would have what is said in the background of a
	// terminal that has tostop set written again and again.
	signal.Ignore(syscall.SIGTTOU)
	return end, k.standsAgain(err), err
}

// remoteLauncher is the launcher in the keeper's eyes.
type remoteLauncher struct {
	pipe     *pipe
	page     *sharedDeadline
	sigs     chan syscall.Signal
	dead     chan struct{}
	caught   chan os.Signal
	pid      int                   // of the launcher
	notified bool                  // the launcher knows that the command runs
	group    atomic.Pointer[group] // once the command is started
}

// start has the command started. Whose a signal to the group is changes before
// that: the command runs, and has shown something that a person answers with a
// Ctrl-C, before the reaper's word that it does arrives here. Passed on then it
// would get it twice, and many programs take the second as "at once". The price:
// a Ctrl-C in the moment until the reaper has forked is nobody's, as that
// between the fork of a shell and its exec.
func (f *remoteLauncher) start(g *group, o *order, env []string, life *os.File) (command, error) {
	f.group.Store(g)
	if err := g.start(o, env, life); err != nil {
		return nil, err
	}
	return g, nil
}

// others can reach the keeper because it is in the command's group. They are
// for the command, but until it runs the terminal may stop the keeper.
var others = []os.Signal{
	syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT, syscall.SIGWINCH,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE, syscall.SIGALRM,
}

// listen passes on what the launcher sends, and hears its end. The size of the
// terminal means nothing to a command that does not run yet, and whatever else
// comes before that ends the waiting.
func (f *remoteLauncher) listen() {
	f.caught = make(chan os.Signal, 16)
	catch(f.caught, append(slices.Clone(asking), syscall.SIGPIPE)) // nobody may read our words
	go func() {
		for sig := range f.caught {
			f.received(sig.(syscall.Signal))
		}
	}()
	go func() {
		defer close(f.dead)
		for {
			m, _, err := f.pipe.receive()
			if err != nil {
				return
			}
			resized := m.Signal == syscall.SIGWINCH
			if m.Signal != 0 && (!resized || f.group.Load() != nil) {
				f.pass(m.Signal)
			}
		}
	}()
}

// heard decides what a signal to this process is. Before the command is started
// it asks the keeper to end. Then a terminal's has gone to the whole group and is
// none of the keeper's business; but a TERM that this process did not send
// itself was sent to its pid, which is the one that "show" shows, and is meant
// for the command.
func (f *remoteLauncher) received(sig syscall.Signal) {
	g := f.group.Load()
	switch {
	case g == nil && slices.Contains(asking, os.Signal(sig)):
		f.pass(sig)
	case g != nil && sig == syscall.SIGTERM && !g.echo():
		f.pass(sig)
	}
}

// pass never blocks: who sends more signals than are read has been heard.
func (f *remoteLauncher) pass(sig syscall.Signal) {
	select {
	case f.sigs <- sig:
	default:
	}
}

func (f *remoteLauncher) signals() <-chan syscall.Signal { return f.sigs }
func (f *remoteLauncher) gone() <-chan struct{}          { return f.dead }

func (f *remoteLauncher) asleep() bool {
	p, ok := look(f.pid)
	return ok && p.state == "T"
}

// running: from here on the keeper goes on when the group is stopped. It is
// not ignored but caught, because what is ignored stays so in the command.
func (f *remoteLauncher) running() { catch(f.caught, others) }

func (f *remoteLauncher) keepAlive(life *os.File)    { f.pipe.send(message{Life: true}, life) }
func (f *remoteLauncher) stopped(sig syscall.Signal) { f.pipe.send(message{Stopped: sig}, nil) }

func (f *remoteLauncher) over() { f.page.set(0) }

func (f *remoteLauncher) deadline(at time.Duration) {
	f.page.set(at)
	if !f.notified {
		f.notified = true
		f.pipe.send(message{Running: true}, nil)
	}
}
