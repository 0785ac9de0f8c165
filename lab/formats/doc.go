// Package formats is tests only: what each engine keeps in its store, recorded in testdata as
// the promise of docs/compatibility.md has it. A claim written by a release is understood by
// the ones after it.
//
// A record has the whole store after the same calls: a holder and a waiter, shared holders,
// permits, and a detached claim where that is kept in another way. An engine has a record of
// each of its layouts. Handles, the texts of detached leases, have one too. One test compares it with what the engine writes today. Another fills an empty
// store from it, as an older program would have left it, and reads, refuses, extends and
// frees those claims with today's engine.
//
//	go test ./lab/formats -update    writes the records
//
// A record that changes is a change of the format: the new one goes beside the old one, and
// the old one stays readable. It cannot show what is not in the store: scripts, functions and
// messages of clients that run at the same time. `make rolling` tries two versions at once.
//
// filelock has no record: its files are those of living processes of one boot, by kernel locks
// and clocks that a test cannot fill. make rolling has it.
package formats
