//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// deserted is closed when nobody will ever read what is written to f: a pipe whose
// other end is closed says so before anything is written to it. It never is of a file
// or a terminal that is there.
func deserted(f *os.File) <-chan struct{} {
	gone := make(chan struct{})
	fd := int32(f.Fd())
	go func() {
		for {
			poll := []unix.PollFd{{Fd: fd}}
			if n, err := unix.Poll(poll, -1); err == unix.EINTR {
				continue
			} else if err != nil || n == 0 {
				return // the next write will tell
			}
			close(gone)
			return
		}
	}()
	return gone
}
