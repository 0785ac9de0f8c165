package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// starter is the process that a person or a script started: the launcher. A run
// is three processes and the command:
//
//	shell ── leasehold run           the launcher: in the shell's job
//	           └─ leasehold keep     the keeper: leads a process group of its
//	                │                own, owns the lease, decides
//	                └─ lease-reaper  in a group of its own; starts, reaps, kills
//	                     └─ COMMAND  in the keeper's group, with all it starts
//
// Each of the three ends everything if the others fail. If the launcher is
// killed, the keeper sees the wire close. If the keeper is killed or stopped,
// launcher and reaper see it end, or trust run out (sharedDeadline), and kill what is
// left. If the reaper is killed, the kernel kills the command
// (PR_SET_PDEATHSIG) and the keeper the rest. Each is a subreaper, so that what
// one of them leaves behind becomes another's.
//
// Launcher and keeper are called leasehold, and so "killall -9 leasehold" kills
// both at once, and a Ctrl-Z that somebody sends to all of them stops both: the
// reaper then kills what runs, at once or when trust ends. Killing all three at
// once still kills the command itself, but not what it started; the embedded
// engine keeps the name from others until that is gone, at most until the TTL
// has passed, and every other engine until the TTL has passed. Stopping all
// three (a frozen container stops the command too) ends nothing: then the
// command may run beside the next holder, and only the token protects.
//
// Rejected: a PID namespace, whose end ends everything in it (needs
// privileges, and the command would see other process numbers); cgroup.kill
// (somebody has to be left to write to it, and a cgroup has to be delegated).
//
// Why not one process that keeps the lease and stays in the shell's job: when
// a person stops that job with Ctrl-Z it must stop, or the shell will not take
// the terminal back; then the lease would be lost, and an editor with it. The
// keeper does not stop.
type starter struct {
	*app
	order *order

	pipe   *pipe
	page   *sharedDeadline
	tty    *terminal // nil: none
	keeper int       // its pid, and the number of its group

	signals   chan os.Signal // all but SIGCONT
	continued chan os.Signal
	stops     []os.Signal             // of a terminal, that the command is not to ignore
	messages  chan delivery           // closed when the keeper's end of the wire is
	states    chan syscall.WaitStatus // of the keeper; the last is its end

	// strangers ran below this process before the keeper did: what a shell had started when it
	// became this process (exec), what this process had adopted as PID 1 of a container, or what
	// an earlier command left in the background. They are neither killed nor waited for. Who is
	// adopted later is no stranger, because it may be the command's.
	strangers []proc

	life      *os.File // keeps the claim alive as long as this process has it
	ended     *status  // what the keeper said last
	ran       bool     // the command runs, or ran
	handedOff bool     // the terminal was given to a command that asked for it
	overdue   bool     // trust ran out, and the keeper did nothing
	asked     bool     // the keeper was told of a signal that asks to end
}

// runOrder does what "run" or "elect" was asked to do and returns the exit code.
func (a *app) runOrder(_ context.Context, o *order) (int, error) {
	// The same for all terms of a candidate, so that no signal falls between two.
	signals, continued := make(chan os.Signal, 16), make(chan os.Signal, 1)
	stops := slices.DeleteFunc([]os.Signal{syscall.SIGTTOU, syscall.SIGTTIN}, signal.Ignored)
	return candidacy(a, o, signals, func() (int, bool, error) {
		f := &starter{
			app: a, order: o, signals: signals, continued: continued, stops: stops,
			messages: make(chan delivery, 16),
			states:   make(chan syscall.WaitStatus, 16),
		}
		return f.term()
	})
}

// term is one keeper from its start to its end, and reports whether a candidate stands again.
func (f *starter) term() (code int, again bool, err error) {
	wake, err := newAlarm()
	if err != nil {
		return 0, false, err
	}
	defer wake.stop()
	if err := f.start(); err != nil {
		return 0, false, err
	}
	code = f.watch(wake)
	if again = f.standsAgain(); again {
		f.close()
	}
	return code, again, nil
}

// standsAgain reports whether a candidate stands again after this term. A signal counts that came
// after the loss, when the keeper ends and reads none any more.
func (f *starter) standsAgain() bool {
	if f.ended == nil { // the keeper was killed
		return f.order.Term > 0 && !f.asked
	}
	return f.ended.Again && !f.asked
}

// close gives back what a term has used. It waits for nobody: a keeper that says how its term went
// has seen the end of all that it had to end, and bury has where a keeper was killed.
func (f *starter) close() {
	f.pipe.conn.Close()
	f.page.close()
	if f.tty != nil {
		unix.Close(f.tty.fd)
	}
	if f.life != nil {
		f.life.Close()
	}
}

// unignore has what is started next not ignore signals that this process does. Catching undoes
// that, and signal.Reset does not (golang/go#46321).
func unignore(sigs []os.Signal) {
	if len(sigs) > 0 { // none would be all
		caught := make(chan os.Signal, 1)
		signal.Notify(caught, sigs...)
		signal.Stop(caught)
	}
}

func (f *starter) start() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	var theirs int
	var err error
	if f.pipe, theirs, err = newWires(); err != nil {
		return err
	}
	defer unix.Close(theirs)
	if f.page, err = newSharedDeadline(); err != nil {
		return err
	}
	// Before there is a keeper, so that no signal falls between the two.
	catch(f.signals, append(slices.Clone(asking),
		syscall.SIGTSTP, syscall.SIGWINCH, syscall.SIGUSR1, syscall.SIGUSR2))
	catch(f.continued, []os.Signal{syscall.SIGCONT})
	// Nobody to read our words is no reason to end; what is ignored would stay
	// so in the command.
	catch(make(chan os.Signal, 1), []os.Signal{syscall.SIGPIPE})

	f.tty = openTerminal()
	attr := &syscall.SysProcAttr{Setpgid: true}
	if f.tty != nil && f.tty.interactive && f.tty.mine() {
		attr.Foreground, attr.Ctty = true, f.tty.fd
	}
	// Descriptors that whoever started us meant for the command keep their
	// numbers, so these two are inherited under the free ones they have.
	page := int(f.page.file.Fd())
	if err := inherit(theirs, page); err != nil {
		return err
	}
	// Nearly always there is no child, and then /proc need not be read.
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		f.strangers = below(os.Getpid())
	}
	args := append([]string{"leasehold", "keep", strconv.Itoa(theirs), strconv.Itoa(page), "--", f.order.Name}, f.order.Command...)
	// One is ignored since an earlier term (below), the other perhaps since stopJob. Nothing is
	// written to the terminal before the first is ignored again.
	unignore(f.stops)
	f.keeper, err = syscall.ForkExec("/proc/self/exe", args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: attr,
	})
	// In the background, only a process that ignores this may take the terminal back, or
	// write to one that has tostop set: each write would be begun again for ever.
	signal.Ignore(syscall.SIGTTOU)
	if err != nil {
		return fmt.Errorf("start the process that keeps the lease: %w", err)
	}
	go f.attend()
	go f.pipe.receiveAll(f.messages)
	rest := *f.order
	rest.Command = nil
	// Failing means that it died at once, which its end reports.
	_ = f.pipe.send(message{Order: &rest}, nil)
	return nil
}

// attend tells what becomes of the keeper, and reaps whoever else ends. It stops at the keeper's end:
// after that bury reaps, and then the next term.
func (f *starter) attend() {
	reapUntil(func(pid int, ws syscall.WaitStatus) bool {
		if pid != f.keeper {
			return false
		}
		f.states <- ws
		return !ws.Stopped()
	})
}

// inherit lets descriptors stay open in what this process starts. It starts
// one thing.
func inherit(fds ...int) error {
	for _, fd := range fds {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	return nil
}
