//go:build unix

package demo

import "syscall"

func (p *Process) halt() error    { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *Process) proceed() error { return p.cmd.Process.Signal(syscall.SIGCONT) }
func (d *daemon) halt() error     { return d.cmd.Process.Signal(syscall.SIGSTOP) }
func (d *daemon) proceed() error  { return d.cmd.Process.Signal(syscall.SIGCONT) }
