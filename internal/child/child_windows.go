package child

import (
	"errors"
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// errHalt is the answer of a system that cannot stop a process and let it go on.
var errHalt = errors.New("Windows cannot stop a process and let it go on (SIGSTOP): run this on Linux or macOS")

// Halt fails: this system cannot do it.
func Halt(*os.Process) error { return errHalt }

// Proceed fails: this system cannot do it.
func Proceed(*os.Process) error { return errHalt }
