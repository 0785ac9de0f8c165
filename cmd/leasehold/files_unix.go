//go:build unix

package main

import (
	"errors"
	"fmt"
	"syscall"

	_ "leasehold/cmd/leasehold/internal/firstfiles" // fewer than Go itself needs
)

// needFiles is how many descriptors a process of leasehold may need beside
// those it was started with: the embedded engine with somebody in the queue uses two
// dozen. With fewer it would fail halfway, or wait for some that never come.
const needFiles = 32

// enoughFiles opens as many, and closes them. It does so with system calls
// alone: Go's own files need descriptors too, and give up loudly without.
func enoughFiles() error {
	var open []int
	defer func() {
		for _, fd := range open {
			syscall.Close(fd)
		}
	}()
	for range needFiles {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return &exitError{codeUnavailable, fmt.Errorf("too few files may be open: leasehold needs %d more than were open at its start, and could open %d; raise the limit (ulimit -n)", needFiles, len(open))}
		}
		if err != nil {
			return nil // something else will be told of that
		}
		open = append(open, fd)
	}
	return nil
}
