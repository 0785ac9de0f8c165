//go:build unix

package servers

import "syscall"

func (p *Process) halt(stop bool) error {
	if stop {
		return p.cmd.Process.Signal(syscall.SIGSTOP)
	}
	return p.cmd.Process.Signal(syscall.SIGCONT)
}
