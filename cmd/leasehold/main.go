// Leasehold is the command line of package leasehold: it runs commands under
// a lock, shows who holds what and who waits, and asks holders to let go.
//
//	leasehold run backup -- ./backup.sh     one at a time, on this machine
//	leasehold ls                            every name somebody holds or waits for
//	leasehold show backup                   the queue of one name
//
// The engine is named by --engine or LEASEHOLD_ENGINE; by default it is the
// embedded one, a directory of this machine that needs no server.
//
// What it promises: a command never runs on a lost lock. While renewals fail
// the command is told to end (TERM) in the last third of the time its lease
// is trusted, and killed at the end of it, with everything it started; so it
// is if leasehold itself is killed. What it cannot: a command that was
// stopped (SIGSTOP, a suspended machine) may run a few instructions after it
// continues and before it is killed. What must not happen even then has to be
// checked where it happens, with the token (LEASEHOLD_TOKEN).
//
// On Linux the lease is kept by a second process in the command's process
// group (see front_linux.go). Elsewhere leasehold keeps it itself, and nobody
// is left to end the command if leasehold is killed.
package main

import (
	"context"
	"os"
)

func main() {
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	os.Exit(a.main(context.Background(), os.Args[1:]))
}
