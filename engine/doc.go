// Package engine is the contract between leasehold and whatever remembers who
// holds what: a directory, Redis, ZooKeeper, etcd, a database.
//
// # The queue is the lock
//
// Every name has one queue. A claim is a place in it. Claims join only at the
// end, with fixed permits, and keep their order.
//
//	A claim is held exactly when the permits of all claims up to and
//	including it sum to at most the limit.
//
// That one rule is every primitive: exclusive (Max of Max), shared (1 of Max),
// a semaphore (n of N). Removing any claim can only add holders.
//
//	ticket   101      102      103      104      105
//	       +------+ +------+ +------+ +------+ +------+
//	front  | 1    | | 1    | | Max  | | 1    | | Max  |  end: who joins
//	       +------+ +------+ +------+ +------+ +------+
//	         Held     Held    Waiting  Waiting  Waiting      limit Max
//
// An engine owns atomicity, order, expiry by its own clock, and waking. All
// waiting, renewing, retrying and every deadline of a lease are the core's
// (package leasehold), written once above this contract.
//
// So is what calls have in common. What stands around every engine, also in the
// conformance suite, refuses in words what no engine may accept or what this one
// does not declare in [Guarantees] (with [errors.ErrUnsupported]): names, IDs, permits
// and limits, owners, TTLs, batches of more than [MaxBatch]. It answers on a context
// that has ended and after Close, ends Watch with Close, and begins a Watch again
// that broke. An engine is asked what makes sense, while it is open, and checks
// nothing of that.
//
// # Nine rules
//
//  1. An error means nothing learned, except an error that is [ErrRefused]:
//     that one is final, has left nothing behind and is never retried. Losing
//     a claim is no error, it is state [Gone]. A batch answers each item by
//     itself: it returns what was learned together with the first error; a claim
//     missing from the result means that nothing was learned of it.
//  2. Plain values throughout: they can be logged, compared, sent over a wire.
//     [Claim].TTL is what was granted, counted from the START of the call that
//     returned it (in a [Queue]: what is left). [Claim].PollAfter is advice, see
//     there. No engine waits or polls on its own behalf.
//  3. Every claim is born with [Request].WaitTTL. Becoming held never extends
//     a claim. (The core first renews what waits after a third of it, and raises a
//     held claim to the full TTL soon after, so a short section costs two
//     calls and a cancelled Join that arrives late leaves an orphan of at most
//     WaitTTL.) Session engines: the first lifetime is the session's, see below.
//  4. No call moves a deadline earlier: deadline = max(old, now + want). Only
//     Leave, Revoke and expiry end a claim. A repeated Join extends too. Where
//     the engine's clock steps back, a deadline stays no further ahead than the
//     longest lifetime that was asked for.
//  5. Expiry is one-way and decided once. Whatever reports a claim Held has
//     removed, durably and in the same atomic step, every claim it skipped.
//     Renew of a claim past its deadline says Gone even where its record still
//     stands. A plain read never proves Held. An engine need not remember
//     claims that are gone: the core never Joins an ID it saw Gone or sent
//     Leave for. A Join asked for again after its first arrival has expired
//     makes the claim anew, with a higher ticket: the ticket tells the incarnations
//     of one ID apart, and what was reported of a former one is void.
//  6. Whatever call makes another claim held, or makes a holder contended,
//     tells that claim's client through Watch: Join, Renew, Leave and Revoke
//     alike. A Renew that removes nobody tells nobody. No call tells its own
//     claim what its reply already says. Revoke tells the client of the claim
//     it ends. Watch may lose, repeat and reorder, and may come before Join
//     returns; Renew is the fallback. Watch is one subscription: it says
//     changed(Claim{}) when that has begun, which means look at every waiting
//     claim, and returns when it breaks. changed is called from one goroutine
//     at a time, never inside another method than Watch; it does not block, and
//     calls nothing of the engine. In a Watch claim TTL and PollAfter mean nothing;
//     Contended counts at once when true, and is false only in a reply.
//  7. NoWait: held at once, or state Gone with nothing left behind; a refused
//     one tells each holder at most once between two of its Renews. Replaces:
//     leave that claim in the same step (never together with NoWait); the turn
//     is lost exactly when somebody else waits. Detached: the claim outlives
//     its client and ends by its TTL alone.
//  8. Leave answers the state in which the claim was found: Held, Waiting, or
//     Gone if it was absent, expired or marked. Revoke removes a waiting claim
//     at once; a holder it marks: from then on every call says Gone and
//     Revoked and nothing extends it, and its permits are free when its holder
//     leaves or its deadline passes. With now they are free at once, which
//     may overlap with a holder that has not yet noticed.
//  9. With order [OrderNone] an engine need remember nobody who waits: a Join of
//     what is taken answers Waiting and leaves nothing behind. The core repeats
//     it, by the same ID, for as long as the claim waits: when PollAfter says, and
//     when Watch reports the claim as Waiting, which means "a good moment to
//     try". Renew is for held claims only. The core sends the Leave of a claim
//     when its last Join was answered; where that answer was lost it repeats
//     the Leave for as long as the Join may arrive. An engine without order that
//     shares a foreign layout may refuse Revoke with [errors.ErrUnsupported].
//
// # Session engines
//
// Where the store ends what a client made when it has not heard of that client for
// the time of its session ([CrashSession]), the rules hold with these readings:
//
//   - A claim lives by a session for its [Request].TTL, or WaitTTL where that is zero,
//     from its first moment on: that is the TTL in every reply, whatever Renew wants.
//     It may be trusted for that long from the start of a call that proved the claim,
//     which is less than the session lasts. Few different TTLs may be in use at once;
//     one more is refused.
//   - The deadline of a claim (rules 4, 5, 8) is the end of its session. A client
//     that lives keeps all its claims, renewed or not; Renew proves them.
//   - A session's end is Gone for all its claims at once, held and waiting, and a
//     new session inherits none. Watch tells it as each claim's Gone, as soon as
//     the client hears of it. A client that is cut off does not, and its trust
//     runs out before.
//   - What says that a session lives, without a commit by the store, proves nothing.
//   - An ID means something to the client that joined it, and to no other: claims
//     end with their client, so there are no detached ones. To others it is Gone.
//   - The queue tells of itself when a holder's session ends: PollAfter may be 0. The TTL
//     in a Queue is what is left of the session, or what a proof grants where the
//     store does not say.
//   - A shared holder, and one of several holders of permits, may not hear of a
//     refused NoWait (rule 7).
//
// Package enginetest checks these rules against any engine.
package engine
