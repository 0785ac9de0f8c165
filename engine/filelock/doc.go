// Package filelock is the embedded default: locks between the processes of one machine,
// kept in a directory. It needs no server and no setup.
//
// # What it promises
//
// All processes that use the directory under one kernel exclude each other, even in
// containers that mask the kernel's identity. They are served first come, first served, in
// every mode. Tokens rise over reboots and power cuts, even if the wall clock begins in
// the past each time. A ticket is the largest of the last one plus one, the wall clock in
// microseconds, and the tickets that an earlier boot had reserved. Deadlines count in
// CLOCK_BOOTTIME, so that no wall clock decides anything but tokens.
//
// A process that ends, in any way, gives up its claims at once: its life is a kernel
// lock on a file. Where more than 16 processes hold one name, a waiter finds one that
// ended within about a second for each 16. Claims joined as Detached stay until their
// TTL. A process that is stopped at any instruction of this package delays others on
// the same name by about a second, or two if a process that was about to help is also
// stopped. A killed process delays no other. Neither costs the others a claim.
//
// # What it cannot promise
//
// It cannot exclude processes of another machine. It refuses file systems not known to be
// local. A user who may write in the directory may break every promise, above all by
// deleting or moving it while it is in use. So it belongs to one user and is closed to all
// others. Holders in a directory that was deleted, or moved away and made again, learn
// that when they renew. A client whose own file was deleted makes a new one within a tenth
// of a second of its next call.
//
// After a crash of the machine all queues are empty, since all their clients are dead:
// filelock never syncs queues. It syncs only a reserve of tickets, once an hour, on Linux.
// A client that sees a masked kernel identity, as in systemd-nspawn and LXC, cannot detect
// a power cut. It declares that tokens rise until the directory forgets and the wall clock
// has stepped back, and so do all clients on other systems. For such a client a detached
// claim of an earlier boot may stand for its TTL once more.
//
// Clients that live at the same time must agree on the boot, and on the time since it.
// Otherwise filelock refuses them: one of them is deceived, and each would count the other
// as dead.
//
// On macOS and FreeBSD, and on Windows, exclusion, order and crash release are the same,
// but clients do not wake each other. The core polls every ten milliseconds for the first
// waiter, and less often for others (Claim.PollAfter). There are no detached claims there.
//
// On Windows the shortest TTL is 2 s, since the clock of deadlines has steps of 16 ms.
// Records stay there: each name that was ever used keeps its file, since nobody can remove
// a file that is open. A program of ever new names removes the directory while no process uses
// it. filelock does not check there who may write in the directory: put it where only its
// user may.
//
// # How
//
//	lines/<hash>/<number>   one queue: two checksummed slots      internal/records
//	floor/<number>          tickets of queues that were removed   internal/records
//	reserve/<boot>.<number> tickets that may be granted, synced   internal/records
//	new/                    records about to be founded           internal/records
//	clients/<client>        its lock is that client's life        internal/liveness
//	clients/<client>.d      socket: notifications for that client internal/liveness
//	clients/<client>.s      socket: ends with that client         internal/liveness
//
// Package records keeps queues in files. A change takes the kernel lock, reads, has the
// queue changed, writes the older slot, checks that the file is still the record, and
// unlocks. That is five system calls; type record argues why they can be interrupted
// anywhere. Package liveness knows which clients are alive, sends notifications to them
// and learns when one ends. Package queuestore decides about a queue, and whom to notify.
// Package internal/disk has the differences between systems. This package has the
// directory, the clock, the bounds on open files, and what an error means for the person
// who has to act on it.
package filelock
