//go:build unix && !linux

package servers

import "syscall"

const diesWithParent = false

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
