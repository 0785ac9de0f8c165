package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"leasehold/lab/internal/page"
)

func (r row) line() string {
	behind := "-"
	if r.behind > 0 {
		behind = fmt.Sprintf("%.2f, %.2f", r.behind, r.contended)
	}
	return fmt.Sprintf("| %s | %v | %.2f | %.2f | %.2f | %s | %s | %s |", r.name, r.fresh.Round(time.Microsecond), r.pairs, r.names, r.renewals, behind,
		amount(r.bytesBefore), amount(r.bytes))
}

// amount is a number of bytes for people.
func amount(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// table has a row for each engine.
func table(rows []row, u use) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| engine | a pair, fresh | after %d pairs on one name | and %d names | and %d renewals | and %d pairs behind an open transaction; contended | store before | store after the renewals |\n"+
		"|---|---|---|---|---|---|---|---|\n", u.Pairs, u.Names, u.Leases*int(u.Held/time.Second), u.Behind)
	for _, r := range rows {
		b.WriteString(r.line() + "\n")
	}
	return b.String()
}

// write puts the tables between the markers of a page.
func write(file string, rows []row, u use, bills []bill, f fleet) error {
	said := fmt.Sprintf("Measured on %d cores, %s, %s; one client, all defaults; servers on loopback.\n\n", runtime.NumCPU(), runtime.Version(), time.Now().Format(time.DateOnly))
	fleets := fmt.Sprintf("The cost of %d machines for one server, measured with %d clients for %v each, and multiplied.\n\n", theFleet, f.Machines, f.Watched)
	return page.Put(file, "growth", "\n"+said+table(rows, u)+"\n"+fleets+billTable(bills)+"\n")
}
