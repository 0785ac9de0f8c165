//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

// childAttr puts the command into a group of its own, in the foreground if
// this job has the terminal: it must be able to read it.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: !onTerminal()} }

func onTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err == nil {
		tty.Close()
	}
	return err == nil
}

func statusOf(s *os.ProcessState) status {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return status{Signal: ws.Signal()}
	}
	return status{Code: s.ExitCode()}
}

// target is the command's group; on a terminal, where it has none, itself.
func (c *child) target() int {
	if pgid, err := syscall.Getpgid(c.process.Pid); err == nil && pgid == c.process.Pid {
		return -c.process.Pid
	}
	return c.process.Pid
}

func (c *child) signal(sig syscall.Signal) { _ = syscall.Kill(c.target(), sig) }

func (c *child) notify() {
	c.signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT)
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }
