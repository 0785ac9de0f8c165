package main

import (
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedDeadline is memory that the processes of a run share: when the launcher and
// the reaper have to end the command because trust is about to end and the
// keeper did nothing.
// Messages would not do. A launcher that was stopped (Ctrl-Z) for an
// hour has to know, before it acts on what it knew an hour ago, what is true
// now, and must not make the keeper wait in the meantime.
type sharedDeadline struct {
	file     *os.File
	page     []byte
	deadline *atomic.Int64 // in the page, by package boottime; 0: nothing to end
}

// newSharedDeadline makes one, to be inherited as its file.
func newSharedDeadline() (*sharedDeadline, error) {
	f, err := newMemory("leasehold-deadline")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64(os.Getpagesize())); err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return openSharedDeadline(fd)
}

// newMemory is a file that is nowhere.
func newMemory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openSharedDeadline takes fd over, and keeps it from what this process starts.
func openSharedDeadline(fd int) (*sharedDeadline, error) {
	unix.CloseOnExec(fd)
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("mmap", err)
	}
	// A page is aligned for an int64, and stays mapped until close.
	return &sharedDeadline{os.NewFile(uintptr(fd), "deadline"), page, (*atomic.Int64)(unsafe.Pointer(&page[0]))}, nil
}

// close gives the memory back. Nobody may use it any more.
func (p *sharedDeadline) close() {
	unix.Munmap(p.page)
	p.file.Close()
}

func (p *sharedDeadline) set(at time.Duration) { p.deadline.Store(int64(at)) }
func (p *sharedDeadline) get() time.Duration   { return time.Duration(p.deadline.Load()) }

// look reports whether the deadline has passed at now, or else when to look
// again: the keeper moves it without a word. Zero: there is nothing to end.
func (p *sharedDeadline) look(now time.Duration) (again time.Duration, over bool) {
	at := p.get()
	return at, at != 0 && now >= at
}
