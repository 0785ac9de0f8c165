//go:build unix

package servers

import (
	"syscall"

	"leasehold/internal/child"
)

func (p *Process) halt(stop bool) error {
	if !stop {
		return p.cmd.Process.Signal(syscall.SIGCONT)
	}
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return child.AwaitStop(p.PID())
}
