package main

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"leasehold/internal/boottime"
)

// reaper is the process that starts the command and becomes the parent of
// whatever loses its own. It exists for one case: that everybody who could end
// the command is killed or stopped at once, which is what "killall leasehold"
// does. So it does as little as it can (no engine, no lease, no decision), is
// in a process group of its own, which no terminal's signal reaches, and has
// another name. It kills everything that the command started if the keeper
// ends without having let go, and when the deadline on the page passes.
//
// As the command's parent it alone is told that it stopped or ended; it says
// so to the keeper.
type reaper struct {
	pipe     *pipe
	page     *sharedDeadline
	messages chan delivery // closed when the keeper is gone

	life    *os.File      // keeps the claim alive until everything has ended
	empty   chan struct{} // nil before the start; closed when nothing is left below
	killing sync.Once
}

// reaperName is what ps shows. It does not contain the name of the program, on
// purpose: whoever kills everything of that name should not kill this.
const reaperName = "lease-reaper"

// callMyself is the name that ps shows of a process that was started by the link to
// its own program, and else would have the link's: exe. It works without.
func callMyself(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// executable is what is to be started.
type executable struct {
	Path string
	Args []string
	Env  []string
}

func (a *app) reapCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "reap WIRE PAGE",
		Short:  "Start and end the command of a run (leasehold starts this itself)",
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			byHand := usageError("reap is started by run, not by hand")
			if len(args) != 2 {
				return byHand
			}
			w, page, err := inherited(args[0], args[1])
			if err != nil {
				return byHand
			}
			r := &reaper{pipe: w, page: page, messages: make(chan delivery, 16)}
			return r.run()
		},
	}
}

// inherited is what a process of a run was started with, by its numbers.
func inherited(pipeFD, deadlineFD string) (*pipe, *sharedDeadline, error) {
	w, err1 := strconv.Atoi(pipeFD)
	p, err2 := strconv.Atoi(deadlineFD)
	if err1 != nil || err2 != nil || w < 3 || p < 3 {
		return nil, nil, errors.New("not the numbers of descriptors")
	}
	conn, err := newPipe(w)
	if err != nil {
		return nil, nil, err
	}
	page, err := openSharedDeadline(p)
	return conn, page, err
}

func (r *reaper) run() error {
	// Not ignored but caught: what is ignored stays so in the command.
	catch(make(chan os.Signal, 1), slices.Concat(asking, others))
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	callMyself(reaperName)
	go r.pipe.receiveAll(r.messages)
	return r.watch()
}

func (r *reaper) watch() error {
	wake, err := newAlarm()
	if err != nil {
		return err
	}
	defer wake.stop()
	messages := r.messages
	for {
		select {
		case m, open := <-messages:
			switch {
			case !open && r.empty == nil:
				return nil
			case !open:
				messages = nil
				r.kill()
			case m.Life:
				r.life = m.file
			case m.Start:
				err := r.start(m.file)
				r.pipe.send(message{Started: startedAs(err)}, nil)
				if err != nil {
					return nil
				}
				wake.at(r.page.get())
			case m.LetGo:
				return nil
			}
		case <-wake.c():
			if again, over := r.page.look(boottime.Now()); over {
				r.kill()
			} else if again != 0 {
				wake.at(again)
			}
		case <-r.empty:
			return nil
		}
	}
}

func (r *reaper) kill() {
	r.killing.Do(func() { go killBelow(r.empty, 0) })
}

// start starts the command in the keeper's group. The life file stays open in
// it, too: should all of leasehold be killed at once, the claim lives as long
// as what the command started.
func (r *reaper) start(from *os.File) error {
	if from == nil {
		return syscall.EINVAL
	}
	defer from.Close()
	var p executable
	if err := gob.NewDecoder(io.NewSectionReader(from, 0, maxProgram)).Decode(&p); err != nil {
		return err
	}
	if _, over := r.page.look(boottime.Now()); over {
		return errTooLate
	}
	if r.life != nil {
		// Under the number it has, which is free: 3 and the next may be what
		// whoever started us meant for the command.
		if err := inherit(int(r.life.Fd())); err != nil {
			return err
		}
	}
	started := make(chan error)
	r.empty = make(chan struct{})
	go func() {
		// The kernel kills the command when the thread that started it ends,
		// so this one must last: it goes on and reaps.
		runtime.LockOSThread()
		pid, err := syscall.ForkExec(p.Path, p.Args, &syscall.ProcAttr{
			Env: p.Env, Files: []uintptr{0, 1, 2},
			Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Pgid: os.Getppid()},
		})
		started <- err
		if err != nil {
			return
		}
		reap(func(got int, ws syscall.WaitStatus) {
			switch {
			case got != pid:
			case ws.Stopped():
				r.pipe.send(message{Stopped: ws.StopSignal()}, nil)
			default:
				how := statusOf(ws)
				r.pipe.send(message{Ended: &how}, nil)
			}
		})
		close(r.empty)
	}()
	return <-started
}

// maxProgram is more than the kernel takes as arguments and environment.
const maxProgram = 64 << 20

// started says how starting the command went. An error crosses as its number,
// if it has one, because what it means for the exit code is in there.
type started struct {
	Errno   syscall.Errno
	Failed  string
	TooLate bool
}

func startedAs(err error) *started {
	s := &started{TooLate: errors.Is(err, errTooLate)}
	if err != nil && !errors.As(err, &s.Errno) {
		s.Failed = err.Error()
	}
	return s
}

func (s *started) err() error {
	switch {
	case s.TooLate:
		return errTooLate
	case s.Errno != 0:
		return s.Errno
	case s.Failed != "":
		return fmt.Errorf("starting it: %s", s.Failed)
	}
	return nil
}
