// Package redissonlock shares locks with running Java programs that use Redisson: RLock,
// RReadWriteLock and RFencedLock, tested with the releases 3.13.2 and 4.7.0. Both sides
// exclude each other and wake each other by the same messages: for a migration without a
// pause, or for good.
//
// It promises what Redisson's layout allows, which is less than package queuelock. There
// is no order: any caller that tries at a good moment obtains the lock. The queue does not
// show waiters. At most one holds as long as the server neither restarts without its data
// nor has its clock stepped forward. With Sentinel or Cluster that holds until a failover
// or a network partition, as for Redisson's own locks.
//
// # Kinds
//
// All programs that use a name must agree on its kind ([Options].Kind):
//
//	lock       getLock           exclusive. Redisson's holders have no token, so tokens
//	                             would not fence them: none are promised
//	readwrite  getReadWriteLock  exclusive is its writer, shared its reader. Readers may
//	                             starve a writer: Redisson lets them in while one waits
//	fenced     getFencedLock     exclusive, with tokens that rise over both languages
//
// The engine refuses a name that is another kind of lock, or other data, and does not
// touch it. It does not support RFairLock: that would exclude, but has its own queue, and
// leasehold's release does not notify a waiter in it. It does not support RSemaphore and
// getMultiLock either; use LockAll for several names. Package redlock shares
// RedissonRedLock.
//
// # How names map
//
// The name is Redisson's, which is the key: there is no prefix. If the Java programs have
// a NameMapper, use the name that it returns. Beside each lock leasehold keeps a key that
// begins with leasehold:redisson: and expires some two hours after the last hold. It has
// the owner, for inspection, and the ticket. The engine refuses a name that could be such
// a key, or one that Redisson keeps beside its locks.
//
// A claim is a holder of its own. To Redisson, each is a thread of its own client, named
// by the claim's ID, and enters once. Re-entry within a Go program is leasehold's
// (LockOptions.Reentrant) and never reaches Redis. The engine respects and shows how often
// a Java thread has entered.
//
// # Deadlines
//
// A claim's TTL is the lease of Redisson's lock, and leasehold renews it as Redisson's
// watchdog does. A Java program waits for a message or for the end of that lease, and so
// does a claim here. A claim also polls, every few seconds at the latest. So it soon
// notices a release without a message: a lock deleted by hand, or a Java writer that
// becomes a reader, of which Redisson notifies nobody. A lock without an expiry is held
// until somebody ends it; a queue shows its TTL as 0.
//
// All readers of a lock share one deadline. Redisson renews a read lock by setting that to
// its lockWatchdogTimeout from then on, even if another reader was granted more. So the
// TTL of kind=readwrite is at most that time, 30 s by default (?watchdog=). If Java
// programs set different ones, give the shortest. Releases as old as 3.13.2 use instead
// the last lease of the same lock object. With them, let no thread give a reader's lock a
// shorter one.
//
// Each reader's deadline is a key of its own. While a Cluster moves a slot, these keys may be
// at another node than the lock. Then nobody's deadline is judged: a call fails and is tried
// again. So a lock with a dead reader is free for a writer only when the slot has moved.
//
// # Turns
//
// Callers of one Go program that want the same name queue in it, and a claim passes from
// one to the next (package leasehold bounds for how long, while another program waits).
// Redisson keeps no list of waiters, but waiters subscribe, and the server knows how many
// do. So the engine can notify a holder that it is contended, though not by whom. When the
// holder's turn ends, the lock is free for any caller, Java programs too. No caller has a
// right to it: one of those that try at once obtains it. On a Cluster the engine does not
// count waiters of Redisson before 3.22.0, and before Redis 7.0 it counts none.
//
// # Unlock latches
//
// Since 3.24.1 a Java program that unlocks leaves the outcome for some seconds in a key
// redisson_unlock_latch:{name}:<request>, where its own retry of that request finds it. No
// other program reads or needs it, and leasehold does not either: a repeated Leave finds
// its claim gone, since no two claims are one holder. Queues does not show latches, since
// it reads only hashes.
//
// # Ending a Java program's hold
//
// Redisson's holders have ticket 0. RevokeNow of it is Redisson's forceUnlock. With
// kind=readwrite it ends all holds of other programs, and no claim of leasehold. Revoke
// refuses it: those programs do not see a mark.
//
// # Tokens
//
// A fenced lock's ticket is Redisson's token: its counter redisson_lock_token:{name} after
// the increment. Give a resource that Java programs also write to the ticket
// (Token().Ticket() of the lease), which rises over both languages. Callers of one Go
// program that share a claim by handoff share its ticket. If each needs a ticket of its
// own, turn handoffs off (Options.NoLocalHandoff).
//
// The counter jumps to the server's clock in microseconds when leasehold first takes the
// lock, and goes on from there. So tokens rise even if the server forgets the counter. If
// a Java program comes first after that, it begins again at 1, as it would alone. The
// counter has no expiry, as in Redisson: each name ever used costs one small key.
//
// # The least a user needs
//
//	~* &redisson_* +evalsha +eval +time +get +set +incrby +del +pttl +pexpire +hlen
//	+hget +hgetall +hkeys +hset +hdel +publish +subscribe +unsubscribe +pubsub +scan
//	+info +ping +hello +auth +select
//
// Without +info the engine does not check the eviction policy. Without +pubsub a busy Go
// program does not see that Java programs wait. Cluster also needs +exists +spublish
// +ssubscribe +sunsubscribe +cluster|slots +cluster|shards.
package redissonlock
