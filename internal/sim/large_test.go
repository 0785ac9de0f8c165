package sim

import (
	"flag"
	"runtime"
	"testing"
	"time"

	"leasehold/internal/claims"
)

var size100 = flag.Int("sim.size", 1, "the large runs in percent of their size: 100 takes minutes each (make simulate)")

// large runs a large run, and says what it took.
func large(t *testing.T, s Setup) Result {
	t.Helper()
	if raced {
		s.For /= 10 // nothing here is concurrent, and all is ten times slower
	}
	begin := time.Now()
	var m runtime.MemStats
	r := Measure(s, func() { runtime.ReadMemStats(&m) })
	if r.Violation != nil {
		t.Fatal(r.Violation)
	}
	t.Logf("%d clients, %d names, %v: %v real time, %d MiB; %+v", len(s.Clients), s.NameCount(), s.For, time.Since(begin).Round(time.Second/10), m.Sys>>20, r.Counts)
	return r
}

func TestManyClientsOnOneQueue(t *testing.T) {
	clients := 100 * *size100
	if testing.Short() {
		clients /= 2
	}
	r := large(t, OneQueue(clients, time.Hour))
	if r.Losses > 0 || r.Grants < clients {
		t.Errorf("%d leases of %d clients, %d lost", r.Grants, clients, r.Losses)
	}
}

func TestManyLeases(t *testing.T) {
	leases := 10_000 * *size100
	r := large(t, Leases(leases, 5*time.Minute, time.Hour))
	if r.Losses > 0 || r.Grants < leases || r.Batch > claims.MaxTick {
		t.Errorf("%d leases of %d, %d lost, batches of up to %d", r.Grants, leases, r.Losses, r.Batch)
	}
	// A Join, a first renewal and a Leave each; and for each of ten clients five calls a
	// renewal interval of 100 seconds, or full batches.
	if most := r.Grants*3 + 10*36*5 + r.Renewals/claims.MaxTick*2; r.Requests > most {
		t.Errorf("%d requests, more than %d", r.Requests, most)
	}
}

func TestAFleetUnderAllFaults(t *testing.T) {
	n := 10 * *size100
	r := large(t, Fleet(1, Notifies, n, n, 24*time.Hour))
	if r.Losses == 0 || r.Faults == 0 || r.Overlaps > 0 {
		t.Errorf("%d lost leases, %d faults, %d overlaps", r.Losses, r.Faults, r.Overlaps)
	}
}
