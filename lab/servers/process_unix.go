//go:build unix && !linux

package servers

import "syscall"

const diesWithParent = false

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitStop does not wait: only Linux shows whether a process has stopped.
func awaitStop(int) error { return nil }
