//go:build unix && !linux

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// childAttr puts the command into a group of its own. In a session with a terminal it
// stays in this process's group: it must be able to read the terminal.
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

// signal does not pass on a Ctrl-C or Ctrl-\ that the terminal has sent to the command as
// well: many programs take the second as "at once". The price: an INT that somebody
// sends to this process alone is lost while its job has the terminal.
func (c *child) signal(sig syscall.Signal) {
	if (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && c.hearsTerminal() {
		return
	}
	_ = syscall.Kill(c.target(), sig)
}

// hearsTerminal reports whether the command is in this process's group, and the group has the
// terminal.
func (c *child) hearsTerminal() bool {
	group, err := unix.Getpgid(c.process.Pid)
	if err != nil || group != unix.Getpgrp() {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == group
}

func (c *child) notify() {
	c.signal(syscall.SIGTERM)
	c.signal(syscall.SIGCONT)
}

func (c *child) kill() { c.signal(syscall.SIGKILL) }
