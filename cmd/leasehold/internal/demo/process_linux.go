package demo

import "syscall"

// ownGroup keeps a terminal's interrupt from the children: the demo ends them itself.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
