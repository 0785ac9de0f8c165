package harness

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Arena is memory that the bench and its workers share: a mapped file of
// 64-byte cells, so that no two writers meet in one cache line.
//
//	cell 0            from, to, verdict
//	cells 1 to 128    one per process: grants so far, how many still run
//	cells 129 ...     one per name
type Arena struct {
	path  string
	bytes []byte
}

const (
	cell      = 64
	maxProcs  = 128
	firstName = 1 + maxProcs
)

// Name is one lock's cell. Counter, Owner and Released are written only by
// whoever holds the lock, without atomics, and never read by anybody else: a
// lock that excludes is all the protection they get. That is the point.
type Name struct {
	Counter  int64
	Owner    int64 // 1 + the actor that held last
	Released int64 // when it called Unlock
	Seq      int64 // grants; atomic, since the last holder waits for the next
	_        [4]int64
}

// Progress is one process's cell. Atomic.
type Progress struct {
	Grants  atomic.Int64
	Running atomic.Int64
	Idle    atomic.Int64 // a Keep load holds all it could get
	_       [5]int64
}

// Control is the first cell. Atomic; written by the bench alone.
type Control struct {
	From, To atomic.Int64 // the window that counts, CLOCK_MONOTONIC
	Verdict  atomic.Int64
	_        [5]int64
}

// Verdicts end the draining of a load.
const (
	goOn  int64 = iota
	stuck       // nobody was granted anything for Silence: who still waits is stuck
	cut         // they drain, but too slowly to wait for
)

// NewArena makes an arena for that many names, in memory where the machine has
// a file system for it.
func NewArena(names int) (*Arena, error) {
	dir := "/dev/shm"
	if _, err := os.Stat(dir); err != nil {
		dir = ""
	}
	f, err := os.CreateTemp(dir, "leasehold-bench-")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := f.Truncate(int64((firstName + names) * cell)); err != nil {
		os.Remove(f.Name())
		return nil, err
	}
	a, err := OpenArena(f.Name())
	if err != nil {
		os.Remove(f.Name())
	}
	return a, err
}

// OpenArena maps an arena that somebody made.
func OpenArena(path string) (*Arena, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", info.Size(), err)
	}
	return &Arena{path: path, bytes: b}, nil
}

// Control is the cell that times the run.
func (a *Arena) Control() *Control { return (*Control)(a.cell(0)) }

// Process is one process's cell.
func (a *Arena) Process(i int) *Progress { return (*Progress)(a.cell(1 + i)) }

// Name is one name's cell.
func (a *Arena) Name(i int) *Name { return (*Name)(a.cell(firstName + i)) }

// Names is how many names there is room for.
func (a *Arena) Names() int { return len(a.bytes)/cell - firstName }

func (a *Arena) cell(i int) unsafe.Pointer { return unsafe.Pointer(&a.bytes[i*cell]) }

// Close unmaps the arena.
func (a *Arena) Close() error { return unix.Munmap(a.bytes) }

// Remove unmaps the arena and removes its file.
func (a *Arena) Remove() error {
	os.Remove(a.path)
	return a.Close()
}
