package filelock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/engine"
)

// BenchmarkUncontended is Join and Leave of one goroutine.
func BenchmarkUncontended(b *testing.B) {
	e, err := New(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	ctx := context.Background()
	owner := engine.Owner{Host: "some.host.example", PID: os.Getpid(), Label: "nightly report", Since: time.Now()}
	b.ReportAllocs()
	for b.Loop() {
		r := engine.Request{Name: "stock:42", ID: engine.NewID(), Owner: owner, Permits: engine.Max, Limit: engine.Max, WaitTTL: 3 * time.Second}
		c, err := e.Join(ctx, r)
		if err != nil || c.State != engine.Held {
			b.Fatal(c, err)
		}
		if _, err := e.Leave(ctx, []engine.Claim{c}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFlockFloor is what it is measured against: open, flock, write 16
// bytes, unlock, close.
func BenchmarkFlockFloor(b *testing.B) {
	path := filepath.Join(b.TempDir(), "floor")
	var data [16]byte
	for b.Loop() {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			b.Fatal(err)
		}
		unix.Flock(fd, unix.LOCK_EX)
		unix.Write(fd, data[:])
		unix.Flock(fd, unix.LOCK_UN)
		unix.Close(fd)
	}
}

// BenchmarkInLongQueue is Join and Leave at the end of a queue of 100.
func BenchmarkInLongQueue(b *testing.B) {
	e := openEngine(b, b.TempDir(), nil)
	for range 100 {
		if _, err := e.Join(b.Context(), exclusive("x")); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c, err := e.Join(b.Context(), exclusive("x"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := e.Leave(b.Context(), []engine.Claim{c}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRenewMany renews a claim on each of 10,000 names, more than are
// kept open, in one call.
func BenchmarkRenewMany(b *testing.B) {
	e := openEngine(b, b.TempDir(), nil)
	var rs []engine.Renewal
	for i := range 10_000 {
		c, err := e.Join(b.Context(), exclusive(fmt.Sprint(i)))
		if err != nil {
			b.Fatal(err)
		}
		rs = append(rs, engine.Renewal{Name: c.Name, ID: c.ID, Want: time.Minute})
	}
	for b.Loop() {
		if cs, err := e.Renew(b.Context(), rs); err != nil || len(cs) != len(rs) {
			b.Fatal(len(cs), err)
		}
	}
}
