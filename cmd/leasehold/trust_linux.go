package main

import (
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// trustPage is memory that front and keeper share: until when the lease is
// trusted. Messages would not do. A front that was stopped (Ctrl-Z) for an
// hour has to know, before it acts on what it knew an hour ago, what is true
// now, and must not make the keeper wait in the meantime.
type trustPage struct {
	file  *os.File
	until *atomic.Int64 // by package boottime; 0: nothing to end
}

// newTrustPage makes one, to be inherited as its file.
func newTrustPage() (*trustPage, error) {
	fd, err := unix.MemfdCreate("leasehold-trust", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	if err := unix.Ftruncate(fd, int64(os.Getpagesize())); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("ftruncate", err)
	}
	return openTrustPage(fd)
}

// openTrustPage takes fd over.
func openTrustPage(fd int) (*trustPage, error) {
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("mmap", err)
	}
	// A page is aligned for an int64, and stays mapped as long as the process.
	return &trustPage{os.NewFile(uintptr(fd), "trust"), (*atomic.Int64)(unsafe.Pointer(&page[0]))}, nil
}

func (p *trustPage) set(until time.Duration) { p.until.Store(int64(until)) }
func (p *trustPage) get() time.Duration      { return time.Duration(p.until.Load()) }
