package cells

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"leasehold/engine"
	"leasehold/engine/filelock/internal/disk"
)

// Clients that reserve at the same time each find what they asked for reserved. The
// next one removes what they leave.
func TestManyReserveAtOnce(t *testing.T) {
	if !disk.Syncs {
		t.Skip("nothing is reserved here")
	}
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		c := openEngine(t, dir).cells
		wg.Go(func() {
			for n := range uint64(50) {
				ticket := (n*8 + uint64(i)) * reserveStep / 4
				if err := c.reserveTicket(ticket); err != nil {
					t.Error(err)
					return
				}
				marks, err := c.reserve.marks()
				if err != nil {
					t.Error(err)
					return
				}
				most := uint64(0) // also of those that are being renamed
				for _, m := range marks {
					most = max(most, m.number)
				}
				if len(marks) > 0 && most < ticket {
					t.Errorf("ticket %d may be granted, and %d is reserved", ticket, most)
				}
			}
		})
	}
	wg.Wait()
	if err := openEngine(t, dir).cells.reserveTicket(1000 * reserveStep); err != nil {
		t.Fatal(err)
	}
	if marks, _ := os.ReadDir(filepath.Join(dir, "reserve")); len(marks) != 1 {
		t.Errorf("%d names are left; want 1: %v", len(marks), marks)
	}
}

// What somebody put there that is no mark, or says more than there can be, says nothing.
func TestForeignMarksSayNothing(t *testing.T) {
	if !disk.Syncs {
		t.Skip("nothing is reserved here")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "reserve"), 0o700); err != nil {
		t.Fatal(err)
	}
	boot := "01234567890123456789012345678901"
	for _, file := range []string{"x", boot, boot + ".", boot + ".-1", boot + ".18446744073709551615", boot + ".9007199254740992", "0123.7", boot + ".7.old"} {
		if err := os.WriteFile(filepath.Join(dir, "reserve", file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := openEngine(t, dir)
	if e.cells.reserve.base != 0 {
		t.Errorf("base %d; want 0", e.cells.reserve.base)
	}
	mustLeave(t, e, mustJoin(t, e, exclusive("x"), engine.Held), engine.Held)
}
