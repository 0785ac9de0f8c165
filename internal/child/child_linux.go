package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// stopped waits until a child stands still, or has ended. What it finds is left for the Wait
// of os/exec.
func stopped(pid int) error {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

// ownGroup keeps a terminal's interrupt from the children: their parent ends them itself.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
