// Package filelock is the embedded default: locks between the processes of one
// machine, kept in a directory. No server, nothing to set up.
//
// # What it promises
//
// Exclusion among all processes that use the directory under one kernel,
// containers included, also those that mask the kernel's identity; first come, first
// served between them; every mode; tokens that rise over reboots and power cuts,
// also where the wall clock begins in the past each time (the last one plus one, or
// the wall clock in microseconds, or what an earlier boot had reserved, whichever is
// more). Deadlines are counted in CLOCK_BOOTTIME, so that no wall clock decides
// anything but tokens.
//
// A process that ends, however it ends, gives up its claims at once: its life
// is a kernel lock on a file. Claims joined as Detached stay until their TTL.
// A process that is stopped at any instruction in here delays others on the
// same name by about a second, or two if one that was about to help is stopped
// as well; one that is killed delays nobody. Neither loses anything of theirs.
//
// # What it cannot
//
// It cannot exclude processes of another machine. File systems not known to be
// local are refused. Whoever may write in the directory may break every
// promise, above all by deleting or moving it while it is in use; it therefore
// belongs to one user and is closed to all others. Those who held in what was
// deleted, or moved away and made again, learn it when they renew; a client whose own file was deleted makes a new one
// within a tenth of a second of its next call. After a crash of the machine all
// queues are empty, since all their clients are: they are never synced. Only a
// reserve of tickets is, once an hour, on Linux. A client to which the kernel's identity
// is masked, as in systemd-nspawn and LXC, cannot tell a power cut from none: it
// declares that tokens rise until the directory forgets and the wall clock has
// stepped back, and so do all clients on other systems. To such a client a detached
// claim of an earlier boot may stand for its TTL once more.
//
// Clients that live at the same time and do not agree on the boot, or on the time
// since, are refused: one of them is deceived, and each would take the other for
// dead.
//
// On macOS and FreeBSD, and on Windows, exclusion, order and crash release are
// the same, but clients do not wake each other: the core polls every ten
// milliseconds for who is next, and less often for others (Claim.PollAfter). There
// are no detached claims there. On Windows a record goes only when no process
// has it open any more, and the directory is not checked for who may write in
// it: leave it where only its user may.
//
// # How
//
//	queues/<hash>/<number>   one queue: two checksummed slots       internal/records
//	floor/<number>          tickets of queues that were removed    internal/records
//	reserve/<boot>.<number> tickets that may be granted, synced   internal/records
//	new/                    records about to be founded           internal/records
//	clients/<client>        its lock is that client's life        internal/lives
//	clients/<client>.d      socket: notifications for that client         internal/lives
//	clients/<client>.s      socket: ends with that client         internal/lives
//
// There are two rooms. Package records keeps queues in files: a change takes the
// kernel lock, reads, has the queue changed, writes the slot that is not the
// newest, looks whether the file is still the record, and unlocks. That is five
// system calls; the argument why it can be interrupted anywhere is there, at type
// record. Package liveness knows which clients are alive, takes notifications to them and
// hears when one ends. What is done with a queue, and who is told, is package
// queuestore's; what differs from system to system is in internal/disk. What is
// left is here: the directory, the clock, how much is kept open, and what an error
// means for who has to act on it.
package filelock
