// Package redissonlock shares locks with running Java programs that use Redisson:
// RLock, RReadWriteLock and RFencedLock, tested with the releases 3.13.2 and 4.7.0.
// Both sides exclude each other and wake each other by the same messages: for a
// migration without a pause, or for good.
//
// It promises what Redisson's layout has room for, and less than queues do (package
// queuelock): no order (who tries at a good moment has it), and nobody sees who
// waits. At most one holds as long as the server neither restarts without its data
// nor has its clock stepped forward; with Sentinel or Cluster, until a failover or a
// parted network, as Redisson's own locks.
//
// # Kinds
//
// All programs that use a name must agree on what it is ([Options].Kind):
//
//	lock       getLock           exclusive. Redisson's holders have no token, so tokens
//	                             would not fence them: none are promised
//	readwrite  getReadWriteLock  exclusive is its writer, shared its reader. Readers may
//	                             starve a writer: Redisson lets them in while one waits
//	fenced     getFencedLock     exclusive, with tokens that rise over both languages
//
// A name that is another kind of lock, or other data, is refused and not touched.
// RFairLock is not among them: it would exclude, but its queue is its own, and a
// waiter in it is not told when we leave. RSemaphore and getMultiLock are not either;
// LockAll is what leasehold has for several names. RedissonRedLock is package redlock's.
//
// # How names map
//
// The name is Redisson's, which is the key: there is no prefix. If the Java programs
// have a NameMapper, write what it makes of a name. Beside each lock stands a key of
// ours that begins with leasehold:redisson: and goes by itself some two hours after
// the last hold: it has the owner, for whoever inspects, and the ticket. Names that could
// be one of those keys, or one that Redisson keeps beside its locks, are refused.
//
// A claim is a holder of its own: in Redisson's words, each is a thread of its own
// client, named by the claim's ID. It enters once. Re-entry within a Go program is
// leasehold's (LockOptions.Reentrant) and never reaches Redis; how often a Java thread
// has entered is respected, and shown.
//
// # Deadlines
//
// A claim's TTL is the lease of Redisson's lock, and renewing it is what Redisson's
// watchdog does. A Java program waits for a message or for the end of that lease,
// and so does a claim here; it asks again besides, every few seconds at the latest. So
// a release that nobody tells (a lock deleted by hand; a Java writer that becomes a
// reader, of which Redisson tells nobody) is seen soon. A lock without an expiry is held
// until somebody ends it; a queue shows its TTL as 0.
//
// Redisson renews a read lock by putting the deadline that all its readers share to
// its lockWatchdogTimeout from then on, whatever others were granted. So the TTL of
// kind=readwrite is at most that, 30 s if not said otherwise (?watchdog=). If Java
// programs set different ones, it is the shortest. Releases as old as 3.13.2 use
// instead the lease that was last asked for on the same lock object: there, let no
// thread give a reader's lock a shorter one.
//
// # Turns
//
// Callers of one Go program that want the same name queue in it, and a claim passes
// from one to the next (package leasehold has how long, while somebody else waits).
// Redisson keeps no list of who waits, but who waits listens, and the server knows how
// many do. So a holder is told that it is contended, if not by whom, and when its turn
// is over the lock is free for whoever comes first, Java programs too. It is nobody's
// right: of several who try at once, one has it. On a Cluster, waiters of Redisson
// before 3.22.0 are not counted, and before Redis 7.0 nobody's.
//
// # Unlock latches
//
// Since 3.24.1 a Java program that unlocks leaves the outcome for some seconds on a
// key redisson_unlock_latch:{name}:<request>, where its own retry of that request
// finds it. No other program reads or needs it, and neither do we: a Leave that is
// sent again finds its claim gone, since no two claims are one holder. A latch is of
// no use to Queues, which looks at hashes alone.
//
// # Ending a Java program's hold
//
// Redisson's holders have ticket 0. Revoke of it, at once, is Redisson's forceUnlock;
// of kind=readwrite it ends all that other programs hold, and no claim of ours. Without
// "at once" it is refused: they see no mark.
//
// # Tokens
//
// A fenced lock's ticket is Redisson's token: its counter redisson_lock_token:{name}
// after the increment. A resource that Java programs write to as well must be given
// the ticket (Token().Ticket() of the lease), which rises over both languages. Callers
// of one Go program to whom a claim was handed share its ticket: where each must have
// one of its own, do not hand off (Options.NoLocalHandoff).
//
// The counter jumps to the server's clock in microseconds when leasehold first takes
// the lock, and goes on from there, so that tokens rise even if the server forgets it.
// A Java program that comes first after that begins again at 1, as it would alone. The
// counter has no expiry, as Redisson's has none: each name ever used costs one small
// key.
//
// # The least a user needs
//
//	~* &redisson_* +evalsha +eval +time +get +set +incrby +del +pttl +pexpire +hlen
//	+hget +hgetall +hkeys +hset +hdel +publish +subscribe +unsubscribe +pubsub +scan
//	+info +ping +hello +auth +select
//
// (+info may be left out, then the eviction policy is not checked; +pubsub too, then
// a busy Go program does not see that Java programs wait; Cluster adds
// +spublish +ssubscribe +sunsubscribe +cluster|slots +cluster|shards.)
package redissonlock
