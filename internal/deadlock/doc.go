// Package deadlock finds out whether a waiting claim is part of a deadlock: a cycle of
// callers, each of whom waits for a name that the next one holds. It is pure: it says
// which queues to read, takes them, and gives its verdict. It reads no queue itself, waits
// for nothing and uses no clock.
//
// # What it sees
//
// A claim of a caller that held something names those holds, by name and ticket
// (engine.Owner.Holds). So a queue shows who waits for a claim, and what the waiters keep
// from others meanwhile:
//
//	queue a: [10 held]  [12 waits, holds b:11]
//	queue b: [11 held]  [13 waits, holds a:10]
//
// From a waiting claim (13) the search goes to the holds of its caller (a:10), to the
// waiters behind those (12), to their holds (b:11), and so on. A holder's own
// wait needs no search: the claim of that wait comes up by itself, or the holder waits for
// nothing that leads back to where the search began.
//
// # What a deadlock is
//
// A waiting claim is stuck if its queue has no room for it even after all claims have left
// that are not stuck. A held claim is stuck if a stuck one names it: the search assumes
// that a waiter keeps its holds until it stops waiting. A cycle is the largest set of
// stuck claims each of which waits for each other one, directly or not. For exclusive and
// shared claims that is a cycle; for permits, which may come free in several ways, a knot:
// every one of the ways leads back.
//
// Expired and revoked claims do not count: they will go, and nobody can keep them.
//
// # One victim
//
// One claim of a cycle gives up, and all of its members must agree on it without speaking
// to each other. It is the youngest claim whose holds another one needs. Youngest is the
// highest ticket, then the greater name, then the greater owner. In a cycle through
// several engines it is the youngest of the claims that hold in one engine and wait in
// another. Only those certainly see the whole cycle. Tickets of one engine follow its
// clock or its revisions, across names. So the youngest claim is the one that closed the
// cycle, and searches first, since it has just begun to wait. If tickets do not follow
// time (several engines, a clock that was set back), the choice is as good as another, and
// still the same for all. The owner's own clock decides nothing.
//
// # Twice
//
// Queues are read one after the other, so their contents may never have been true at one
// moment. But tickets never repeat and claims never move back. So a claim that two passes
// find in the same place was there all the time between them, and so was every edge
// between such claims. At the end of the first pass they existed together. So a verdict of
// one pass is a suspicion. [Search.Again] reads the queues of the cycle once more, and
// counts only what it saw before.
//
// # Bounds
//
// The bounds are [MaxDepth], [MaxQueues] and [MaxClaims]. A search that reaches one of
// them has found nothing: an unread queue could change who the victim is.
package deadlock
