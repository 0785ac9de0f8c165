//go:build !unix

package servers

import (
	"errors"
	"syscall"
)

const diesWithParent = false

func childAttr() *syscall.SysProcAttr { return nil }

func disown(*syscall.SysProcAttr, string) error { return nil }

func (p *Process) halt(bool) error { return errors.ErrUnsupported }
