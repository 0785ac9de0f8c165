package child

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// AwaitStop waits until a child that was told to stop stands still, or has ended. One thread takes
// the signal in and stops the others: on a busy machine these go on until that one gets to run.
// What it finds is left for the Wait of os/exec. Other systems do not show it: there it does not wait.
func AwaitStop(pid int) error {
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
