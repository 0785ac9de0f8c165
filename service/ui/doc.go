// Package ui shows the queues of an engine as pages for people: who holds what, who waits,
// and why. "leasehold serve" has them at /ui, and "leasehold ui" shows them of any engine.
//
// # What it promises
//
// The engine is read by one goroutine for all pages that are open: the next reading begins
// half a second after the last one ([Options].Every), or later if that took longer. While no
// page is open, and for a while nobody has asked for one, nothing is read.
//
// Pages are read-only, unless [Options].Revoke is given and the caller has that right. A
// request that changes something must come from a page of the same origin. Every link is
// relative, so a proxy may serve the pages under any path. Nothing that a client wrote
// (names, labels, hosts) can be more than text. Pages need no script to be read: with it,
// they follow changes.
//
// If the engine does not answer, pages show the last picture, marked as old, and go on by
// themselves when it answers again.
//
// # What it cannot promise
//
// Queues are read one after the other, so a page may show what was never true at one moment.
// The history is what this process saw, from picture to picture, since it began: a claim that
// came and went between two pictures is not in it. Ages are by the clocks of those who asked.
// A holder that goes before its time counts as released; nobody can tell that from the
// outside if somebody else revoked it at once.
package ui
