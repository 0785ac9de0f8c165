package torture_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"leasehold/torture"
	"leasehold/torture/history"
)

// needGroups skips where this process can make no control groups.
func needGroups(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 && strings.Contains(string(mounts), " cgroup2 rw") {
		return
	}
	if os.Getenv("LEASEHOLD_REQUIRE") == "all" {
		t.Fatal("only root can make groups of cgroup v2, and LEASEHOLD_REQUIRE=all forbids skipping")
	}
	t.Skip("SKIPPED: only root can make groups of cgroup v2")
}

// One client is frozen, or all of them are. Each is seen to answer nobody, and loses its
// leases. The trial has removed its groups afterwards, or there would be a note.
func TestClientsAreFrozen(t *testing.T) {
	t.Parallel()
	needGroups(t)
	r, events := trial(t, t.Context(), torture.Options{
		For: 16 * time.Second, Clients: 3, TTL: 400 * time.Millisecond, Nemeses: []torture.Nemesis{torture.Freeze()},
	})
	if len(r.Left)+len(r.Notes) > 0 {
		t.Errorf("left %q, notes %q", r.Left, r.Notes)
	}
	wellFormed(t, events)
	client := map[int]string{}
	one, all := 0, 0
	for _, e := range events {
		switch {
		case e.Kind == history.Strike && e.Named == "freeze":
			client[e.Fault] = e.Client + e.Target
		case e.Kind == history.Bit && client[e.Fault] == "all 3 clients":
			if !strings.HasPrefix(e.Error, "3 of 3 did not answer") {
				t.Errorf("%+v", e)
			}
			all++
		case e.Kind == history.Bit && client[e.Fault] != "":
			if !strings.HasPrefix(e.Error, "1 of 1 did not answer") {
				t.Errorf("%+v, of %s", e, client[e.Fault])
			}
			one++
		}
	}
	if one == 0 || all == 0 || r.Status.Lost == 0 {
		t.Errorf("%d of one client and %d of all had an effect, and %d leases were lost", one, all, r.Status.Lost)
	}
}

// An interrupt comes while clients are frozen: they go on, end, and leave nothing behind.
func TestAnInterruptThawsClients(t *testing.T) {
	t.Parallel()
	needGroups(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, events := trial(t, ctx, torture.Options{
		For: time.Hour, Clients: 2, TTL: 2 * time.Second, Nemeses: []torture.Nemesis{torture.Freeze()},
		Status: func(s torture.Status) {
			if s.Strikes > s.Bits { // one is under way
				cancel()
			}
		},
	})
	if len(r.Left)+len(r.Notes) > 0 {
		t.Errorf("left %q, notes %q", r.Left, r.Notes)
	}
	wellFormed(t, events)
	kinds := count(events, func(e history.Event) string { return string(e.Kind) })
	if ctx.Err() == nil || kinds["start"] != kinds["exit"] || kinds["strike"] == 0 || kinds["strike"] != kinds["heal"] {
		t.Errorf("%v, %v", ctx.Err(), kinds)
	}
}

// A fault of the network is none of a directory.
func TestPacketsOfADirectoryAreLeftOut(t *testing.T) {
	t.Parallel()
	r, _ := trial(t, t.Context(), torture.Options{
		For: 2 * time.Second, Clients: 1, TTL: 200 * time.Millisecond, Nemeses: []torture.Nemesis{torture.Packets()},
	})
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "packets was left out: the URL has no host") {
		t.Errorf("%q", r.Notes)
	}
}
