package main

import (
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

func statusOf(s *os.ProcessState) status { return status{Code: s.ExitCode()} }

// signal does nothing: a console's Ctrl-C reaches the command by itself, and
// there is nothing else to pass on.
func (c *child) signal(syscall.Signal) {}

func (c *child) notify() {}

func (c *child) kill() { _ = c.process.Kill() }
