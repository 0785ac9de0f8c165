package demo

import (
	"errors"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// errStop is the answer of a system that cannot stop a process and let it go on.
var errStop = errors.New("this schedule stops a process (SIGSTOP), which Windows cannot: run it on Linux or macOS")

func (p *Process) halt() error    { return errStop }
func (p *Process) proceed() error { return errStop }
func (d *daemon) halt() error     { return errStop }
func (d *daemon) proceed() error  { return errStop }
