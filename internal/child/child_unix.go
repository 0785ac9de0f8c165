//go:build unix && !linux

package child

import "syscall"

// ownGroup keeps a terminal's interrupt from the children: their parent ends them itself.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// AwaitStop does not wait.
func AwaitStop(int) error { return nil }
