// Package redlock keeps locks on several Redis servers that know nothing of each other: a
// holder has the lock on a majority of them. It is the published Redlock algorithm
// (redis.io/docs/latest/develop/clients/patterns/distributed-locks) with every part of it,
// on the keys that redsync uses. So programs with redsync v4 on the same masters and
// leasehold exclude each other.
//
//	all masters at once, each for a small time-out:   take the lock if it is free
//	a majority has it, and TTL - elapsed - drift > 0: held, with a ticket
//	else: leave everywhere, and try again later, by chance or when notified
//
// From four calls at a time on, the Joins and Leaves of goroutines share requests to each
// master.
//
// # What it promises
//
// Two do not hold at a time while too few masters have lost a hold to make a majority with
// those that never had it. A master loses a hold if it forgets it, or its clock is
// stepped. A master never had it if it was down, cut off or late, had restarted, or
// another client tried there at the same moment. (Of a hold that all of five have, two may
// forget it; of one that three have, none.)
//
// The lock works on while a minority is down, slow or cut off. A restarted master has no
// vote until the holds that it may have forgotten have expired, and nobody has to delay
// its start. Tickets rise from holder to holder over all majorities, so that a resource
// can refuse a paused holder.
//
// # What it cannot promise
//
// It has no order: any waiter that tries at a good moment obtains the lock. A release
// notifies one of the waiters; waiters also poll, after a second at the latest. It has no
// shared or counted locks. It promises nothing if a majority shares its fate: five servers
// on one machine, or with one clock that is set wrongly. The queue does not show waiters,
// and the holder of a revoked claim learns of it when it renews.
//
// # Restarts
//
// A master that started less than MaxTTL ago has no vote. The exception is a master that has
// forgotten nothing. It has appendonly yes, appendfsync always and
// no-appendfsync-on-rewrite no, and a client of the same locks also checked that before the
// restart. It started with the data that it had then. A run in between ends the exception if it did not
// sync every write, or if no client could know that. Clients do not notice a run that no
// client checked, or whose settings were changed and changed back while it ran.
//
// All clients must agree on MaxTTL, and programs with redsync must not ask for longer
// expiries. Programs with redsync keep no delay: nobody protects what they are granted
// after a restart.
//
// A long lease comes back on a master that forgot it, or never had it. After a renewal
// that a majority proves, the other masters take it again, if it is free there and the
// master has a vote. So the lease survives a restart of all masters one after the other,
// MaxTTL and one renewal apart. A lease that loses a majority between two renewals is
// lost, and its holder is notified.
//
// # Keys
//
// The lock of a name is the key prefix+name, as with package plainlock. The two keys
// beside it begin with leasehold:redlock: and expire some two hours after the last hold.
// The key leasehold:redlock:run, one on each master, stays. Holds of other programs have
// no ticket, and raise none.
//
// The engine refuses a name whose key would begin like the keys beside locks. It leaves
// alone a key of these that has not leasehold's format: that master has no say on the
// name. If a majority is like that, the error names masters and keys. The same holds for a
// counter that is more than a year ahead of the masters' clocks.
//
// # RedissonRedLock
//
// With [Redisson] (?layout=redisson) a lock is that of a RedissonRedLock of a Java
// program: an RLock on each master, which is a hash with one field for the holder. It is
// tested with the releases 3.13.2 and 4.7.0. Both sides exclude each other and wake each
// other by the messages of its channel. A RedissonMultiLock that takes all masters is
// excluded too. There is no prefix: the names are the keys. The majority, the drift, the
// delay after a restart and all other promises hold between programs with leasehold.
// Redisson keeps only the majority, so beside it the engine promises less:
//
//   - Redisson's holders have no token, so none are promised ([engine.FencingNone]).
//   - Redisson's programs use a restarted master at once. If that forgot a hold of
//     leasehold which no more than a majority had, they may take the lock beside it. A
//     program with Redisson renews each master separately and never counts. If a majority
//     of the masters forget its hold, even one after the other, it does not notice, and
//     leasehold may take the lock beside it. The delay covers forgotten leases (or a
//     lockWatchdogTimeout) of at most MaxTTL.
//   - Redisson does not count how long an acquisition took, nor clocks that run apart.
//
// A program that subscribes to the channel waits. So the engine notifies a holder that it
// is contended, and its turn ends when it would pass to another caller of its client.
// Redisson's message is 0. That of leasehold is 00, the same number to Redisson, on which
// no leasehold tries: the engine notifies one leasehold waiter at a time.
//
// # The least a user needs
//
//	~* &leasehold:redlock:* +eval +evalsha +time +get +mget +set +del +pttl +pexpire +zadd
//	+zcard +zrem +zpopmin +hmget +hset +scan +publish +subscribe +info +config|get
//	+ping +hello +auth +select
//
// and with [Redisson]
//
//	~* &leasehold:redlock:* &redisson_lock__channel:* +eval +evalsha +time +get +mget +set
//	+del +pttl +pexpire +exists +hlen +hgetall +hmget +hset +zadd +zcard +zrem +zpopmin
//	+scan +publish +subscribe +unsubscribe +pubsub +info +config|get +ping +hello +auth
//	+select
//
// Without +config|get no master is known to sync every write.
package redlock
