// Package redlock keeps locks on several Redis servers that know nothing of each
// other: whoever has a lock on a majority of them holds it. It is the published
// Redlock algorithm (redis.io/docs/latest/develop/clients/patterns/distributed-locks)
// with every part of it, on the keys that redsync uses, so programs with redsync
// v4 on the same masters and leasehold exclude each other.
//
//	all masters at once, each for a small time-out:   take the lock if it is free
//	a majority has it, and TTL - elapsed - drift > 0: held, with a ticket
//	else: leave everywhere, and try again later, by chance or when told
//
// It promises that two do not hold at a time while those masters that forget a hold,
// or have their clocks stepped, are fewer than a majority together with those that
// do not have it: they were down, cut off or late, were restarted since, or somebody
// else tried there at the same moment. (Of a hold that all of five have, two may
// forget it; of one that three have, none.) It promises that it goes on while a
// minority is down, slow or cut off; that a master which was restarted has no vote
// until what it may have forgotten has expired, without anybody's having to delay
// its start; and that tickets rise from holder to holder over all majorities, so
// that a resource can refuse who was paused.
//
// It cannot promise order (who tries at a good moment has it; a release is
// announced to one of those who wait, and they look again after a second at the
// latest), shared or counted locks, or anything where a majority shares its fate:
// five servers on one machine, or with one clock that is set wrongly. Who waits is
// not seen, and who is revoked hears of it when it renews.
//
// # Restarts
//
// A master that started less than MaxTTL ago has no vote. The exception is a master
// with appendonly yes, appendfsync always and no-appendfsync-on-rewrite no that a
// client of the same locks looked at before its restart as well, and that came up
// with what it had then: it has forgotten nothing. A run between that did not sync
// every write, or of which a client could not know, ends that; one that no client
// looked at, or whose settings were changed and changed back while it ran, is not
// seen. All clients must agree on MaxTTL, and programs with redsync must not ask for
// longer expiries. They keep to no delay themselves: what redsync grants after a
// restart nobody protects.
//
// A lease that lasts comes back on a master that forgot it, or never had it: a
// renewal that a majority proves has the others take it again, where it is free and
// the master has a vote. So it outlives that all masters are restarted one after the
// other, MaxTTL and one renewal apart. One that loses a majority between two
// renewals is lost, and its holder is told.
//
// # Keys
//
// The lock of a name is the key prefix+name, as with package plainlock. The two
// keys beside it begin with leasehold:redlock: and go by themselves, some two hours
// after the last hold; leasehold:redlock:run, one a master, stays. Holds of other
// programs have no ticket, and raise none.
//
// A name whose key would begin as the keys beside locks do is refused. What is at one of
// these keys and not as leasehold writes it is left alone: that master has no say on
// the name, and where a majority is such the error names masters and keys. So it is
// with a counter that is more than a year ahead of the masters' clocks.
//
// # RedissonRedLock
//
// With [Redisson] (?layout=redisson) a lock is what a RedissonRedLock of a Java program
// makes of it, an RLock on each master: a hash with one field, who holds. Tested with
// the releases 3.13.2 and 4.7.0. Both sides exclude each other and wake each other by the
// messages of its channel; who takes all masters as a RedissonMultiLock is excluded as
// well. There is no prefix: the names are the keys. The majority, the drift, the delay
// after a restart and all else said here hold between programs with leasehold. Redisson
// keeps to none but the majority, so beside it less is promised:
//
//   - Its holders have no token, so none are promised ([engine.FencingNone]).
//   - Its programs take a restarted master at once. Where that forgot a hold of ours
//     which no more than a majority had, they may take the lock beside us. And a program
//     of theirs renews each master by itself and never counts: if a majority of the
//     masters forget its hold, be it one after the other, it does not notice, and we may
//     take the lock beside it. The delay covers what was forgotten of leases (or a
//     lockWatchdogTimeout) of at most MaxTTL.
//   - It does not count how long an acquisition took, nor clocks that run apart.
//
// Who listens to the channel waits, so a holder is told that it is contended, and its
// turn ends when it would pass to another caller of its client. Redisson's message is 0;
// ours is 00, the same number to Redisson, by which no leasehold tries: of these one at
// a time is told.
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
// (+config|get may be left out, then no master is known to sync every write.)
package redlock
