// Package queuelock keeps queues in Redis or Valkey: one server, Sentinel, or Cluster,
// from Redis 6.2 on.
//
// Claims are served first come, first served between all processes. An uncontended lock
// takes two requests in all, and a hand-over takes one, that of the releaser. Redis itself
// notifies the next holder, on that client's own channel, and that message is the lock.
// The cost of a hand-over does not grow with the number of waiters.
//
//	A leaves            Redis                       B waits
//	  |--- leave.lua ---->| removes A from the queue  |
//	  |                   | B is next, and fits       |
//	  |<-- "was held" ----|-------- PUBLISH --------->| "you hold, ticket 42"
//
// # What it promises
//
//   - One server: at most the limit hold, as long as the server neither restarts without
//     its data nor has its clock stepped.
//   - Sentinel, Cluster: the same until a failover; see below. Fence important writes with
//     the token.
//   - Tokens rise: a ticket is the larger of the last one plus 1 and the server's clock in
//     microseconds. The server remembers a name's last ticket for one to two hours after
//     its queue. So a ticket can fall only if that memory is lost (FLUSHALL, a crash
//     without persistence, a failover), and the clock has also stepped back or the
//     clock of a new primary lags.
//   - A dead process's claims end by their TTL, by the server's clock.
//
// It cannot promise that a stepped clock does no harm: a server goes by its wall clock. A
// step forward ends every claim that has less than the step left; its holder learns that
// at its next renewal, a third of a TTL later at most. After a step back nobody holds for
// longer than asked for: from the first call after the step, a deadline is at most the
// longest TTL of its claim ahead. A later correction of a step back is a step forward. Run
// the servers with a clock that is slewed, not stepped.
//
// # Restarts
//
// A server that restarted without all that it had granted grants it again. With
// ?restart-delay=1m it does not. No TTL is longer than that minute. For a minute after its
// start the server grants, extends and frees nothing, so every claim that it may have
// forgotten has expired. Every script that could grant a hold checks that the server is
// still the run that the client has checked. Meanwhile errors say until when; they are no
// refusals, and waiters keep waiting. All clients of the same locks must agree on the
// delay.
//
// A server that syncs every write (appendonly yes, appendfsync always,
// no-appendfsync-on-rewrite no), and did so before, grants at once. Clients know that by a
// mark in it, {prefix}run. They do not know it of a server that they check for the first
// time. Nor do they know it after a run that did not sync every write, or of which a
// client could not know. They do not notice a run that no client checked, nor settings
// that were changed and changed back while a run lasted. In all other cases every restart
// costs the delay, even a planned one, and holders lose their leases: the server renews
// nothing.
//
// The delay costs some 9 µs of the server's time for each request. One caller's lock and
// unlock take 1.26 times as long, and the rate of 64 callers is 3 % lower (a benchmark
// here compares them in turns). Without the parameter there is no cost.
//
// Behind Sentinel the delay holds for a primary that comes back before it was missed, and
// for a replica that started so recently; on a Cluster for each primary. There it always
// applies: to sync every write is not enough if another server may take over. The delay
// does not help against a failover to a replica that missed a grant: that server was not
// restarted. It does not notice FLUSHALL, or a disk that is put back under a running
// server. A clock that steps forward shortens the delay as it shortens every TTL.
//
// # Failover
//
// A new primary may have missed a grant, and may grant the name again. If the old primary
// is dead, or becomes a replica, its holder learns that at its next renewal. But an old
// primary that is only cut off goes on answering. A holder on its side of the network
// renews there, while the new primary grants the name as soon as the claim has expired
// there, even if it knew of the claim.
//
//   - Sentinel: both hold for as long as the partition lasts. That ends with ?replicas=1.
//     The client does not believe a renewal that no replica has acknowledged, so the first
//     holder has lost when the claim expires on the other side. It needs two replicas:
//     with one, the servers grant nothing while one of them is away. Without it, set
//     min-replicas-to-write 1 and min-replicas-max-lag 2 on the servers. The old primary
//     then stops taking writes after some 3 s, and both may hold for about that time.
//   - Cluster: a primary that misses the majority stops by itself after
//     cluster-node-timeout (15 s by default), and both may hold for about that time.
//     ?replicas=1 helps as above.
//
// Neither makes it impossible: the promoted replica may be another than the one that
// acknowledged. So the engine declares "may grant twice" with them too. Options.Require
// refuses it to a client that requires better.
//
// # Connections
//
// [Open] takes a URL: see package leasehold/engine/redis. [New] takes the caller's own
// client (github.com/redis/rueidis); set DisableCache there, since the engine caches
// nothing.
//
// An engine uses the client's shared connections and one more for its subscription; with
// ?replicas, one more for each call under way. There a notification that a claim is held
// is such a call too: one at a time, on a Cluster one for each {xx} of the keys. Open makes
// one shared connection to a server. From 16 calls at a time on, uncontended locks share
// requests (not in a Cluster).
//
// After a failover behind one address that connection may still lead to the old primary.
// When its server answers that it is a replica, an engine of Open ends it and dials anew.
// The caller's own client keeps it until the server ends it: use Open there.
//
// # Keys
//
// A name has one key, {prefix}{xx}:name with xx from the name alone, so that braces in
// names cannot move them between Cluster slots. It is a hash; line.lua describes it. It
// expires one to two hours after its last claim's deadline. A user who may read keys or
// channels under the prefix can read claim IDs, and with them end claims: give the prefix
// to nobody else.
//
// A maxmemory-policy that evicts keys would drop held locks; [Open] refuses it. When
// memory is full, no new claim can join. Existing claims can still renew, be notified, and
// leave.
//
// # The least a user needs
//
//	~leasehold:* &leasehold:* +evalsha +eval +time +exists +hget +hmget +hgetall
//	+hlen +hset +hdel +del +pexpireat +publish +subscribe +unsubscribe +scan +info
//	+ping +hello +auth +select +wait
//
// Without +info the engine does not check the eviction policy. +wait is for ?replicas.
// ?restart-delay needs +info, and +config|get to see that a server syncs every write.
// Cluster also needs +cluster|slots +cluster|shards. Open refuses a user who may not run
// scripts, or may not publish and subscribe to channels under the prefix.
package queuelock
