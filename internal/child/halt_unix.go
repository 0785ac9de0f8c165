//go:build unix

package child

import (
	"os"
	"syscall"
)

// Halt stops a child, and what it has started, until Proceed: Launch gave it a group. On
// Linux the child stands still when Halt returns.
func Halt(p *os.Process) error {
	if err := signal(p, syscall.SIGSTOP); err != nil {
		return err
	}
	return AwaitStop(p.Pid)
}

// Proceed lets a stopped child go on, and what it has started.
func Proceed(p *os.Process) error { return signal(p, syscall.SIGCONT) }

// signal signals the group of a child that has not been waited for: after that the number of
// its group may be that of another.
func signal(p *os.Process, s syscall.Signal) error {
	if err := p.Signal(syscall.Signal(0)); err != nil {
		return err
	}
	return syscall.Kill(-p.Pid, s)
}
