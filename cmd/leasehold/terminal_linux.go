package main

import (
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the one that controls this session. It belongs to one process
// group at a time, the foreground; whoever reads it from another group is
// stopped.
type terminal struct {
	fd int

	// interactive: this process was started alone in its job. In a pipeline
	// (run ... | less) the others of the job need the terminal as well, so it
	// is handed on only when the command asks for it.
	interactive bool
}

// openTerminal is nil if this session has none.
func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd, term.IsTerminal(0) && term.IsTerminal(1)}
}

// foreground is the group that has the terminal; 0 if unknown.
func (t *terminal) foreground() int {
	if t == nil {
		return 0
	}
	pgrp, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return pgrp
}

// mine reports whether the terminal belongs to this process's job.
func (t *terminal) mine() bool { return t.foreground() == unix.Getpgrp() }

// give hands the terminal to a group. It fails if that group has ended, or the
// terminal has hung up, and then there is nobody to have it.
func (t *terminal) give(pgrp int) { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp) }

// stopJob stops this process's job, as a terminal does, and returns when
// somebody continues it; at once if the kernel does not let it stop, because
// no shell is there to continue it.
func stopJob(sig syscall.Signal) {
	// The others of the job first, and not this process: a signal to a whole
	// process may stop it a moment later, in another thread, and then the code
	// after this would run before the stop as well as after it.
	signal.Ignore(sig)
	_ = syscall.Kill(0, sig)
	signal.Reset(sig)
	// A signal to the calling thread is delivered before the call returns.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
}
