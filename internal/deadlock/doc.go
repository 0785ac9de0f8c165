// Package deadlock finds out whether a claim that waits is part of a deadlock: a
// cycle of callers, each of whom waits for what the next one holds. It is pure:
// it says which queues to read, is given them, and gives its verdict. It reads
// nothing, waits for nothing and looks at no clock.
//
// # What it sees
//
// A claim that was made for a caller who held something names what that was, by
// name and ticket (engine.Owner.Holds). So a queue says who waits for a claim, and
// what those keep from others meanwhile:
//
//	queue a: [10 held]  [12 waits, holds b:11]
//	queue b: [11 held]  [13 waits, holds a:10]
//
// From a claim that waits (13) the search goes to what its caller holds (a:10), to
// those who wait for that (12), to what they hold (b:11), and so on. It never has
// to find out what a holder waits for: the holder's own claim comes up by itself,
// or the holder waits for nothing that goes back to where the search began.
//
// # What a deadlock is
//
// A claim that waits is stuck if its queue has no room for it even when all have
// left that are not stuck. A held claim is stuck if a stuck one names it: whoever
// waits is taken to keep what it holds until then. The largest set of claims for
// which that is so, and each of which waits for each other one, directly or not, is
// a cycle. For exclusive and shared claims that is a cycle; for permits, which may
// come free in several ways, a knot: every one of the ways leads back.
//
// Claims that have run out, or were revoked, are not counted: they will go, and
// nobody can keep them.
//
// # One victim
//
// One claim of a cycle gives up, and all of its members must agree which without
// speaking to each other: the youngest that holds something another one waits for.
// Youngest is the highest ticket, then the greater name, then the greater owner.
// Of a cycle through several engines it is the youngest of those who hold in one
// what is waited for there and wait in another: only of them it is certain that they
// see it. Tickets of one engine follow its clock or its revisions, across names, so the
// youngest is the one that closed the cycle, and the first to look since has just
// begun to wait. Where tickets do not follow time (several engines, a clock that
// was set back) the choice is as good as another, and still the same for all. The
// owner's own clock decides nothing.
//
// # Twice
//
// Queues are read one after the other, so what was read may never have been true at
// one moment. A claim that is found in the same place in two passes was there all
// the time between them, since tickets never repeat and claims never move back, and
// so were all edges among such claims: at the end of the first pass they existed
// together. So a verdict of one pass is a suspicion. [Search.Again] reads the queues
// of the cycle once more, and counts only what was seen before.
//
// # Bounds
//
// [MaxDepth], [MaxQueues] and [MaxClaims]. A search that comes to one of them has
// found nothing: what it has not read could change who the victim is.
package deadlock
