// Leasehold is the command line of package leasehold. It runs commands under a lock, shows
// who holds what and who waits, and asks holders to let go.
//
//	leasehold run backup -- ./backup.sh     one at a time, on this machine
//	leasehold ls                            every name that is held or waited for
//	leasehold show backup                   the queue of one name
//
// --engine or LEASEHOLD_ENGINE names the engine. By default it is a directory of this
// machine, which needs no server.
//
// # What it promises
//
// A command never runs on a lost lock. While renewals fail, leasehold sends the command
// TERM in the last third of the time that its lease is trusted. At the end of that time it
// kills the command with everything it started. On Linux it does the same if leasehold
// itself is killed.
//
// # What it cannot promise
//
// A command that was stopped (SIGSTOP, a suspended machine) may run a few instructions
// after it continues and before it is killed. A resource that must refuse even those has
// to check the token (LEASEHOLD_TOKEN).
//
// On Linux a second process, in the command's process group, keeps the lease (see
// launcher_linux.go). Elsewhere leasehold keeps the lease itself, and no process is left
// to end the command if leasehold is killed. It ends the command and its process group
// there, but nothing that left the group. On Windows, and in a session with a terminal,
// it ends the command alone.
package main

import (
	"context"
	"os"

	"leasehold/engines"
	"leasehold/torture"
)

func main() {
	if torture.Client(engines.Open) {
		return // this process was one of a trial
	}
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	os.Exit(a.main(context.Background(), os.Args[1:]))
}
