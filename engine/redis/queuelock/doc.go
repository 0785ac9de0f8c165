// Package queuelock keeps queues in Redis or Valkey: one server, Sentinel, or
// Cluster, from Redis 6.2 on.
//
// Claims are served first come, first served between all processes. An
// uncontended lock is two requests in all, and a hand-over is the releaser's
// one request: Redis itself tells the next holder, on a channel of its own, and
// that message is the lock. What a hand-over costs does not grow with the
// number who wait.
//
//	A leaves            Redis                     B waits
//	  |--- leave.lua ---->| takes A out of the queue |
//	  |                   | B is next, and fits     |
//	  |<-- "was held" ----|------- PUBLISH -------->| "you hold, ticket 42"
//
// # What it promises
//
//   - One server: at most the limit hold, as long as it neither restarts
//     without its data nor has its clock stepped.
//   - Sentinel, Cluster: the same until a failover; see below. Fence what
//     matters with the token.
//   - Tokens rise: a ticket is the larger of the last one plus 1 and the
//     server's clock in microseconds. A name's last ticket is remembered for one
//     to two hours after its queue. So a ticket can fall only if that memory is
//     lost (FLUSHALL, a crash without persistence, a failover) and the clock
//     has stepped back as well, or a failover's new clock is behind.
//   - A dead process's claims end by their TTL, by the server's clock.
//
// What it cannot promise: a server goes by its wall clock. A step forward ends
// early whatever has less than the step left, and its holder learns that at its
// next renewal, a third of a TTL later at most. A step back lets nobody hold for
// longer than asked for: from the first call after it, no deadline is further
// ahead than the longest TTL its claim asked for. A step back that is later
// corrected is a step forward. Run the servers with a clock that is slewed, not
// stepped.
//
// # Restarts
//
// A server that was restarted without all it had granted grants it again. With
// ?restart-delay=1m it does not: no TTL is longer than that minute, and for so long
// after its start a server grants, extends and frees nothing, so whatever it may
// have forgotten has expired. Every script that could let somebody hold makes sure
// that the server is the very run that the client has looked at. Meanwhile errors say
// until when; they are no refusals, and whoever waits goes on. All clients of the same
// locks must agree on the delay.
//
// A server that syncs every write (appendonly yes, appendfsync always,
// no-appendfsync-on-rewrite no), and did so before, grants at once. That is known by
// a mark in it, {prefix}run, so of a server that is looked at for the first time it
// is not, nor after a run that did not sync every write, or of which a client could
// not know; a run that no client looked at, or whose settings were changed and
// changed back while it ran, is not seen. Elsewhere every restart costs the delay, a
// planned one too, and who holds has lost: nothing is renewed.
//
// It costs some 9 µs of the server's time for each request. One caller's lock and
// unlock take 1.26 times as long, the rate of 64 callers is 3 % lower (a benchmark here
// compares them in turns). Without the parameter there is nothing of it.
//
// Behind Sentinel it delays a primary that comes back before it was missed, and a
// replica that was started so recently; on a Cluster each primary. There it always
// delays: to sync every write is not enough where another server may take over. It
// does nothing against a failover to a replica that missed a grant: that server was
// not restarted. Nor does it see FLUSHALL, or a disk that is put back under a running
// server; and a clock that steps forward shortens the delay as it shortens every TTL.
//
// # Failover
//
// A new primary may not have heard of a grant, and may grant it again. Where the
// old one is dead, or becomes a replica, its holder learns that at its next
// renewal. An old primary that is only cut off goes on answering, though: a holder
// on its side of the network renews there, while the new primary grants the name
// as soon as the claim has expired there, even if it knew of it.
//
//   - Sentinel: both hold for as long as the network is parted. ?replicas=1 ends
//     that: a renewal that no replica has acknowledged is not believed, so the
//     first holder has lost when the claim expires on the other side. It needs two
//     replicas: with one, nothing is granted while one server is away. Without
//     it, set min-replicas-to-write 1 and min-replicas-max-lag 2 on the servers: the
//     old primary then stops taking writes after some 3 s, and both may hold for
//     about so long.
//   - Cluster: a primary that misses the majority stops by itself after
//     cluster-node-timeout (15 s unless it is set), and both may hold for about so
//     long. ?replicas=1 helps as above.
//
// Neither makes it impossible: the replica that is promoted may be another than
// the one that acknowledged. So the guarantee is "may grant twice" with them too,
// and who requires better is refused.
//
// # Connections
//
// [Open] takes a URL: see package leasehold/engine/redis. [New] takes a client
// of your own (github.com/redis/rueidis); DisableCache is worth setting there,
// since nothing here is cached.
//
// An engine uses the client's shared connections and one more for its
// subscription; with ?replicas, one more for each call that is under way. Open
// makes one shared connection to a server. From 16 calls at a time on,
// uncontended locks share requests (not in a Cluster).
//
// # Keys
//
// A name has one key, {prefix}{xx}:name with xx from the name alone, so that
// braces in names cannot move them between Cluster slots. It is a hash; queue.lua
// describes it. It goes by itself one to two hours after its last claim's
// deadline. Whoever may read keys or channels under the prefix can read claim
// IDs, and with them end claims: give the prefix to nobody else.
//
// A maxmemory-policy that evicts keys would drop held locks; [Open] refuses it.
// When memory is full, nobody new can join, and whoever is in can still renew,
// be told, and leave.
//
// # The least a user needs
//
//	~leasehold:* &leasehold:* +evalsha +eval +time +exists +hget +hmget +hgetall
//	+hlen +hset +hdel +del +pexpireat +publish +subscribe +unsubscribe +scan +info
//	+ping +hello +auth +select +wait
//
// (+info may be left out, then the eviction policy is not checked; +wait is for
// ?replicas; ?restart-delay needs +info, and +config|get to see that a server syncs
// every write; Cluster adds +cluster|slots +cluster|shards.) Open refuses a user
// who may not run scripts, or not publish and listen to channels under the
// prefix.
package queuelock
