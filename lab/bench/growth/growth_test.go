package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	markers "leasehold/lab/internal/page"
)

func TestEachStoreIsComparedWithItself(t *testing.T) {
	r, err := grow(t.Context(), stores()[0], use{Pairs: 50, Names: 50, Leases: 5, Held: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if r.name != "filelock" || r.fresh <= 0 || r.pairs <= 0 || r.names <= 0 || r.renewals <= 0 || r.behind != 0 || r.bytes <= r.bytesBefore {
		t.Errorf("%+v", r)
	}
	if b, err := weigh(t.Context(), stores()[0], fleet{}); err != nil || b != (bill{name: "filelock"}) {
		t.Errorf("a directory has no server: %+v, %v", b, err)
	}
}

func TestWhatMachinesCost(t *testing.T) {
	var b bill
	for range 5 {
		var err error
		if b, err = weigh(t.Context(), stores()[1], fleet{Machines: 5, Watched: time.Second}); err != nil {
			t.Fatal(err)
		}
		if b.memory != 0 || b.holding != 0 || b.waiting != 0 {
			break
		}
	}
	// Five machines cost less than what the memory and the CPU time of an idle server vary by,
	// so each can come out negative here, and a kernel that counts by its ticks may see none of
	// it. The server's connections are counted.
	if b.name != "queuelock" || b.connections < 1 || b.memory == 0 && b.holding == 0 && b.waiting == 0 {
		t.Errorf("%+v", b)
	}
}

func TestThePageHasBothTables(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	begin, end := markers.Markers("growth")
	if err := os.WriteFile(page, []byte("before\n"+begin+"what was there\n"+end+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := []row{{name: "pglock", fresh: 1500 * time.Nanosecond, pairs: 1.004, names: 1.25, renewals: 2, behind: 0.5, contended: 0.75, bytesBefore: 512, bytes: 3 << 20}}
	bills := []bill{{"pglock", cost{connections: 2, memory: 1 << 10, holding: 20 * time.Microsecond, waiting: -time.Microsecond}}}
	if err := write(page, rows, use{Pairs: 7, Names: 8, Leases: 3, Held: 3 * time.Second, Behind: 10}, bills, fleet{Machines: 5, Watched: time.Second}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for _, want := range []string{"before\n", "after 7 pairs", "8 names", "9 renewals", "10 pairs behind", "| pglock | 2µs | 1.00 | 1.25 | 2.00 | 0.50, 0.75 | 0.5 KiB | 3.0 MiB |",
		"with 5 clients", "| pglock | 20000 | 9.8 MiB | 0.20 | 0.00 |", "after\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "what was there") {
		t.Error("the old tables are still there")
	}
	if err := os.WriteFile(page, []byte("no markers"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(page, rows, use{}, bills, fleet{}); err == nil {
		t.Error("a page without markers was written")
	}
}
