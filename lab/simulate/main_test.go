package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEachRunIsARow(t *testing.T) {
	var out strings.Builder
	if err := run(&out, 100, time.Minute); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	columns := strings.Count(lines[0], "|")
	rows := map[string]int{}
	for _, line := range lines[2:] {
		cells := strings.Split(line, "|")
		rows[strings.TrimSpace(cells[1])]++
		if len(cells)-1 != columns {
			t.Errorf("%d columns, not %d: %s", len(cells)-1, columns, line)
		}
	}
	if rows["one queue"] != 3 || rows["leases"] != 3 || rows["all faults"] != 3 {
		t.Errorf("%v in\n%s", rows, out.String())
	}
}

func TestSizes(t *testing.T) {
	if got := sizes(300); !slices.Equal(got, []int{10, 30, 100, 300}) {
		t.Errorf("%v", got)
	}
}
