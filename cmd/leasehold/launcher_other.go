//go:build !linux

package main

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// runOrder keeps the lease in this process: here nobody is left to end the
// command if leasehold itself is killed or stopped. Its group is ended by TERM
// and KILL as everywhere; what left the group is not found, and a command that
// is stopped from the terminal does not stop leasehold.
func (a *app) runOrder(ctx context.Context, o *order) (int, error) {
	if o.All {
		return 0, usageError("--hold-descendants needs Linux: here leasehold does not learn when what COMMAND started has ended: leave it out, and have COMMAND wait for what it starts")
	}
	f := &noLauncher{sigs: make(chan syscall.Signal, 16)}
	caught := make(chan os.Signal, 16)
	catch(caught, asking)
	// Nobody may read our words, and what is ignored stays so in the command.
	catch(make(chan os.Signal, 1), []os.Signal{syscall.SIGPIPE})
	go func() {
		for sig := range caught {
			select {
			case f.sigs <- sig.(syscall.Signal):
			default: // who sends more than are read has been heard
			}
		}
	}()
	return candidacy(a, o, f.sigs, func() (int, bool, error) {
		k := &keeper{app: a, order: o, launcher: f, run: startChild}
		end, err := k.keep(ctx)
		return end.code(), k.standsAgain(err), err
	})
}

// noLauncher is a launcher that is this very process.
type noLauncher struct{ sigs chan syscall.Signal }

func (f *noLauncher) signals() <-chan syscall.Signal { return f.sigs }
func (f *noLauncher) gone() <-chan struct{}          { return nil }
func (f *noLauncher) asleep() bool                   { return false } // then this process is
func (f *noLauncher) running()                       {}
func (f *noLauncher) keepAlive(*os.File)             {}
func (f *noLauncher) deadline(time.Duration)         {}
func (f *noLauncher) over()                          {}
func (f *noLauncher) stopped(syscall.Signal)         {}

func (a *app) platformCommands() []*cobra.Command { return nil }

// child is the command, with no more knowledge of what it started than its
// process group.
type child struct {
	process *os.Process
	ended   chan struct{}
	how     status
}

func startChild(o *order, env []string, _ *os.File) (command, error) {
	p, err := os.StartProcess(o.Path, o.Command, &os.ProcAttr{
		Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: childAttr(),
	})
	if err != nil {
		return nil, err
	}
	c := &child{process: p, ended: make(chan struct{})}
	go func() {
		state, err := p.Wait()
		c.how = status{Code: codeFailed}
		if err == nil {
			c.how = statusOf(state)
		}
		close(c.ended)
	}()
	return c, nil
}

func (c *child) exited() <-chan struct{}        { return c.ended }
func (c *child) gone() <-chan struct{}          { return c.ended }
func (c *child) orphaned() <-chan struct{}      { return nil }
func (c *child) letGo()                         {}
func (c *child) status() status                 { return c.how }
func (c *child) stopped() <-chan syscall.Signal { return nil }
