package main

import (
	"os/signal"
	"runtime"
	"syscall"
	"unsafe"

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
// no shell is there to continue it. It leaves the signal ignored. Nothing is
// stopped if needless says so at the last moment: a shell that puts the job
// into the foreground continues it once, and a stop after that would last.
func stopJob(sig syscall.Signal, needless func() bool) {
	// The others of the job first, and not this process: a signal to a whole
	// process may stop it a moment later, in another thread, and then the code
	// after this would run before the stop as well as after it.
	signal.Ignore(sig)
	if needless() {
		return
	}
	_ = syscall.Kill(0, sig)
	// The kernel queues even an ignored signal if the first thread blocks
	// signals just then, as the runtime does for moments. Left in the queue it
	// would meet the default action below and stop the job once more, after the
	// shell has continued it; ignoring it again empties the queue.
	signal.Ignore(sig)
	// signal.Reset would not do: the runtime keeps its handler for this
	// signal, and the handler does not stop anything.
	var before, stop sigaction
	if setAction(sig, &stop, &before) != nil {
		return
	}
	// A signal to the calling thread is delivered before the call returns.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !needless() {
		_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
	}
	_ = setAction(sig, &before, nil)
}

// sigaction is the kernel's, on every architecture with room to spare. All
// zero it is the default action; anything else is only put back.
type sigaction [8]uint64

func setAction(sig syscall.Signal, to, from *sigaction) error {
	const setSize = 8 // bytes of a set of 64 signals
	_, _, errno := unix.Syscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(from)), setSize, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
