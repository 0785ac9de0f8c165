//go:build unix

package servers

import (
	"os"
	"syscall"
)

// nobody is the user without rights of most systems.
const nobody = 65534

// disown has root's child run as nobody, and gives it its folder.
func disown(a *syscall.SysProcAttr, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	a.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	return os.Chown(dir, nobody, nobody)
}
