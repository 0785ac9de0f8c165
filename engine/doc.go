// Package engine is the contract between leasehold and the engines that remember queues:
// in a directory, Redis, ZooKeeper, etcd or a database.
//
// # The queue is the lock
//
// Every name has one queue. A claim is a place in it. Claims join only at the end, with
// fixed permits, and keep their order.
//
//	A claim is held exactly when the permits of all claims up to and
//	including it sum to at most the limit.
//
// This rule gives every primitive: exclusive (Max of Max), shared (1 of Max) and a
// semaphore (n of N). Removing a claim can only add holders.
//
//	ticket   101      102      103      104      105
//	       +------+ +------+ +------+ +------+ +------+
//	front  | 1    | | 1    | | Max  | | 1    | | Max  |  end: new claims join
//	       +------+ +------+ +------+ +------+ +------+
//	         Held     Held    Waiting  Waiting  Waiting      limit Max
//
// An engine owns atomicity, order, expiry by its own clock, and notifications. The core
// (package leasehold) owns waiting, renewing, retrying and every deadline of a lease.
//
// A checker stands in front of every engine. It refuses invalid names, IDs, permits,
// limits, owners, TTLs, and batches of more than [MaxBatch]. It refuses with
// [errors.ErrUnsupported] requests that exceed the engine's [Guarantees]. It answers calls
// with an ended context and calls after Close, ends Watch at Close, and begins a broken
// Watch again. An open engine gets only valid calls, and need not check them.
//
// # Nine rules
//
//  1. An error means that nothing was learned, unless it is [ErrRefused]: that is final,
//     leaves nothing behind and is never retried. A lost claim is no error but the state
//     [Gone]. A batch answers each item separately: it returns what it learned and the
//     first error. A claim missing from the result means that nothing was learned of it.
//  2. All values are plain: they can be logged, compared and sent over a wire. [Claim].TTL
//     is the time granted, counted from the START of the call that returned it; in a
//     [Queue] it is the time left. [Claim].PollAfter is advice. No engine waits or polls
//     on its own behalf.
//  3. The first lifetime of a claim is [Request].WaitTTL. Becoming held never extends a
//     claim. (The core renews a waiting claim after a third of that, and a held one soon
//     to the full TTL. So a short section costs two calls, and a cancelled Join that
//     arrives late leaves an orphan for at most WaitTTL.) Session engines: see below.
//  4. No call moves a deadline earlier: deadline = max(old, now + want). Only Leave,
//     Revoke and expiry end a claim. A repeated Join extends it too. If the engine's clock
//     steps back, a deadline lies ahead by at most the longest lifetime asked for.
//  5. Expiry is one-way and decided once. A call that reports a claim Held has removed
//     every claim that it skipped, durably and in the same atomic step. Renew of a claim
//     past its deadline returns Gone even if its record is still there. A plain read never
//     proves Held. An engine may forget claims that are gone: the core never Joins an ID
//     again after it saw Gone or sent Leave. A repeated Join that arrives after its first
//     claim expired makes the claim anew, with a higher ticket. The ticket tells the
//     incarnations of an ID apart; reports of an earlier one are void.
//  6. A call that makes another claim held, or a holder contended, notifies that claim's
//     client through Watch: Join, Renew, Leave and Revoke alike. Revoke notifies the
//     client of the claim it ends. A Renew that removes no claim notifies nobody, and no
//     call notifies its own claim of what the reply says. Notifications may be lost,
//     repeated and reordered, and may come before Join returns; Renew is the fallback.
//     Watch is one subscription. It calls changed(Claim{}) once that has begun, which
//     means "check every waiting claim", and returns when it breaks. It calls changed from
//     one goroutine at a time, never inside another method. changed does not block and
//     calls nothing of the engine. TTL and PollAfter of its claim mean nothing. Contended
//     counts at once when true; only a reply says that it is false.
//  7. NoWait: the claim is held at once, or Gone and leaves nothing. A refused one
//     notifies each holder at most once between two of its Renews. Replaces: the call
//     leaves that claim in the same step (never together with NoWait); the turn is lost
//     exactly when another claim waits. A repeated call leaves nothing. Detached: the claim outlives its client and ends
//     by its TTL alone. Every client finds, renews, leaves and replaces it by its ID.
//  8. Leave returns the state in which it found the claim: Held, Waiting, or Gone if it
//     was absent, expired or marked. Revoke removes a waiting claim at once, and marks a
//     holder. From then on every call returns Gone and Revoked for it and nothing extends
//     it; its permits are free when its holder leaves or its deadline passes. With now
//     they are free at once, which may overlap with a holder that has not noticed yet.
//  9. With order [OrderNone] an engine may forget waiters: a Join of a taken name returns
//     Waiting and stores nothing. While the claim waits, the core repeats the Join with
//     the same ID: after PollAfter, and when Watch reports the claim as Waiting, which
//     means "try now". Renew is for held claims only. The core sends Leave after the last
//     Join was answered. If that answer was lost, it repeats the Leave while the Join may
//     arrive. With a foreign layout the engine may refuse Revoke
//     ([errors.ErrUnsupported]).
//
// # Session engines
//
// Some stores end all that a client made when the client was silent for the time of its
// session ([CrashSession]). There the rules read:
//
//   - A claim lives by a session for its [Request].TTL (WaitTTL if that is zero) from its
//     first moment. That is the TTL of every reply, for any Want of Renew. The core trusts
//     a claim for that long from the start of a call that proved it, which is less than
//     the session lasts. Few different TTLs may be in use at once; one more is refused.
//   - The deadline of a claim (rules 4, 5, 8) is the end of its session. A live client
//     keeps all its claims, renewed or not. Renew proves them, by a commit of the store:
//     no other sign of a live session is a proof.
//   - When a session ends, all its claims are Gone at once, held and waiting. A new
//     session inherits none. Watch reports each as Gone as soon as the client learns of
//     it. A client that is cut off does not, but its trust ends first.
//   - An ID has a meaning only for the client that joined it; any other client gets Gone.
//     Claims end with their client. Where an engine has detached ones, rule 7 holds for them: each
//     lives for its own TTL, and every client may call for it by its ID.
//   - The store reports the end of a holder's session, so PollAfter may be 0. TTL in a
//     Queue is what the session has left, or what a proof grants if the store hides that.
//   - A Join may take two steps: a claim has its place before it is known whether it
//     holds. So a NoWait that is Gone may have stood in the queue for a moment, and
//     another may be Gone because of it. Where clients disagree about a limit, a refused
//     Join with Replaces may have ended the claim that it was to replace: Renew says Gone.
//   - A shared holder, and one of several holders of permits, may not be notified of a
//     refused NoWait (rule 7).
//
// Package enginetest checks these rules against any engine.
package engine
