package servers

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const diesWithParent = true

func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitStop waits until no thread of a child runs any more, or it has ended. One thread takes the
// signal in and stops the others: on a busy machine these answer until that one gets to run.
func awaitStop(pid int) error {
	for {
		var info unix.Siginfo
		switch err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err {
		case unix.EINTR:
		case unix.ECHILD: // it has ended, and somebody has waited for it
			return nil
		default:
			return err
		}
	}
}
