package records

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/filelock/internal/disk"
	"leasehold/lab/servers"
)

// Clients that reserve at the same time each find what they asked for reserved. The
// next one removes what they leave.
func TestManyReserveAtOnce(t *testing.T) {
	if !disk.Syncs {
		servers.Missing(t, "nothing is reserved on this system: it cannot sync a folder")
	}
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		c := openEngine(t, dir).records
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
	if err := openEngine(t, dir).records.reserveTicket(1000 * reserveStep); err != nil {
		t.Fatal(err)
	}
	if marks, _ := os.ReadDir(filepath.Join(dir, "reserve")); len(marks) != 1 {
		t.Errorf("%d names are left; want 1: %v", len(marks), marks)
	}
}

// What somebody put there that is no mark, or says more than there can be, says nothing.
func TestForeignMarksSayNothing(t *testing.T) {
	if !disk.Syncs {
		servers.Missing(t, "nothing is reserved on this system: it cannot sync a folder")
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
	if e.records.reserve.base != 0 {
		t.Errorf("base %d; want 0", e.records.reserve.base)
	}
	mustLeave(t, e, mustJoin(t, e, exclusive("x"), engine.Held), engine.Held)
}

// lay makes a directory with these marks.
func lay(t *testing.T, marks ...mark) (dir string) {
	t.Helper()
	if !disk.Syncs {
		servers.Missing(t, "nothing is reserved on this system: it cannot sync a folder")
	}
	dir = t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "reserve"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, m := range marks {
		if err := os.WriteFile(filepath.Join(dir, "reserve", m.String()), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Tickets begin above all that any earlier boot has reserved, whichever was the last.
func TestTheHighestOfEarlierBootsCounts(t *testing.T) {
	for highest := range byte(3) {
		marks := []mark{{boot: [16]byte{9}, number: 9000, synced: true}} // the newest, for which a client that knows no boot takes its own
		for boot := range byte(3) {
			m := mark{boot: [16]byte{boot}, number: 1000, synced: true}
			if boot == highest {
				m.number = 2000
			}
			marks = append(marks, m)
		}
		if got := openEngine(t, lay(t, marks...)).records.reserve.base; got != 2000 {
			t.Errorf("tickets begin above %d; want 2000, of boot %d", got, highest)
		}
	}
}

// Nobody relies on a number whose author was stopped before it was synced.
func TestWhatIsNotSyncedIsNotReserved(t *testing.T) {
	c := openEngine(t, lay(t, mark{boot: [16]byte{9}, number: 100 * reserveStep})).records
	if err := c.reserveTicket(5); err != nil {
		t.Fatal(err)
	}
	marks, err := c.reserve.marks()
	if err != nil || !slices.ContainsFunc(marks, func(m mark) bool { return m.synced && m.number >= 5 }) {
		t.Errorf("ticket 5 may be granted, and what is reserved is %v, %v", marks, err)
	}
}

// The first ticket above what is reserved waits for the next reserve.
func TestNoTicketIsAboveTheReserve(t *testing.T) {
	e := openEngine(t, lay(t))
	micros := uint64(1_000_000)
	e.records.micros = func() uint64 { return micros }
	e.records.clock = func() time.Duration { return time.Second }
	for range 2 {
		c := mustJoin(t, e, exclusive("x"), engine.Held)
		if c.Ticket > e.records.reserve.most.Load() {
			t.Errorf("ticket %d was granted, and up to %d is reserved", c.Ticket, e.records.reserve.most.Load())
		}
		mustLeave(t, e, c, engine.Held)
		micros = e.records.reserve.most.Load() + 1
	}
}

// A client that syncs a new reserve renews its leases of other names meanwhile.
func TestALeaseIsRenewedWhileTicketsAreReserved(t *testing.T) {
	e := openEngine(t, lay(t))
	micros := uint64(1_000_000)
	e.records.micros = func() uint64 { return micros }
	held := mustJoin(t, e, exclusive("held"), engine.Held)
	reserved := 0
	e.records.step = func(step string) {
		if step != "reserving" {
			return
		}
		reserved++
		done := make(chan error, 1)
		go func() {
			_, err := e.Renew(Renewing(t.Context()), []engine.Renewal{{Name: "held", ID: held.ID, Want: 2 * time.Hour}})
			done <- err
		}()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("a renewal waits until tickets are reserved")
		}
	}
	micros = e.records.reserve.most.Load() + 1
	mustLeave(t, e, mustJoin(t, e, exclusive("another"), engine.Held), engine.Held)
	if reserved != 1 {
		t.Errorf("tickets were reserved %d times; want once", reserved)
	}
	mustLeave(t, e, held, engine.Held)
}

// Where the wall clock began in the past, tickets rise with the time since this boot
// above what earlier ones have reserved: also over a queue that was removed.
func TestTicketsRiseWithTheTimeOfThisBoot(t *testing.T) {
	c := openEngine(t, lay(t, mark{boot: [16]byte{9}, number: 9000, synced: true}, mark{boot: [16]byte{1}, number: 2000, synced: true})).records
	c.micros = func() uint64 { return 1 }
	for s := range uint64(3) {
		c.clock = func() time.Duration { return time.Duration(s) * time.Second }
		if got, want := c.record("x").Micros, 2000+s*1_000_000; got != want {
			t.Errorf("after %d s a new queue begins at %d; want %d", s, got, want)
		}
	}
}
