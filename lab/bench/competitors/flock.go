package competitors

import (
	"context"
	"encoding/hex"
	"errors"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"leasehold/lab/bench/harness"
)

// FlockWrite is open, flock, write 16 bytes, unlock and close: the least that a
// lock in a directory can do.
func FlockWrite() harness.Competitor {
	return harness.Competitor{
		Name: "flock+write", Baseline: true,
		About: "open, flock, write 16 bytes in place of the lock; unlock, close in place of the unlock",
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			return flockWrites{at.Dir}, nil
		},
	}
}

type flockWrites struct{ dir string }

func (f flockWrites) Lock(_ context.Context, name string) (harness.Unlock, error) {
	fd, err := unix.Open(file(f.dir, name), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := flock(fd, unix.LOCK_EX); err != nil {
		unix.Close(fd)
		return nil, err
	}
	var line [16]byte
	if _, err := unix.Pwrite(fd, line[:], 0); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return func() error {
		return errors.Join(flock(fd, unix.LOCK_UN), unix.Close(fd))
	}, nil
}

func (flockWrites) Close() error { return nil }

// Flock is a blocking flock on a file that stays open: the fastest hand-over
// between two processes that the kernel's file locks can do.
func Flock() harness.Competitor {
	return harness.Competitor{
		Name: "flock", Baseline: true,
		Waits: "blocked in flock(2), one thread each",
		About: "flock and unlock on a file that stays open; a file descriptor per goroutine. Cannot be interrupted",
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			return &flocks{dir: at.Dir}, nil
		},
	}
}

type flocks struct {
	dir  string
	mu   sync.Mutex
	idle map[string][]int
}

func (f *flocks) Lock(_ context.Context, name string) (harness.Unlock, error) {
	fd, err := f.get(name)
	if err != nil {
		return nil, err
	}
	if err := flock(fd, unix.LOCK_EX); err != nil {
		return nil, err
	}
	return func() error {
		err := flock(fd, unix.LOCK_UN)
		f.mu.Lock()
		f.idle[name] = append(f.idle[name], fd)
		f.mu.Unlock()
		return err
	}, nil
}

func (f *flocks) get(name string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.idle == nil {
		f.idle = map[string][]int{}
	}
	if all := f.idle[name]; len(all) > 0 {
		f.idle[name] = all[:len(all)-1]
		return all[len(all)-1], nil
	}
	return unix.Open(file(f.dir, name), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
}

func (f *flocks) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, all := range f.idle {
		for _, fd := range all {
			unix.Close(fd)
		}
	}
	f.idle = nil
	return nil
}

func flock(fd, how int) error {
	for {
		if err := unix.Flock(fd, how); err != unix.EINTR {
			return err
		}
	}
}

func file(dir, name string) string { return filepath.Join(dir, hex.EncodeToString([]byte(name))) }
