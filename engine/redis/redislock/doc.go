// Package redislock keeps lines in Redis or Valkey: one server, Sentinel, or
// Cluster, from Redis 6.2 on.
//
// Claims are served first come, first served between all processes. An
// uncontended lock is two requests in all, and a hand-over is the releaser's
// one request: Redis itself tells the next holder, on a channel of its own, and
// that message is the lock. What a hand-over costs does not grow with the
// number who wait.
//
//	A leaves            Redis                     B waits
//	  |--- leave.lua ---->| takes A out of the line |
//	  |                   | B is next, and fits     |
//	  |<-- "was held" ----|------- PUBLISH -------->| "you hold, ticket 42"
//
// # What it promises
//
//   - One server: at most the limit hold, as long as it neither restarts
//     without its data nor has its clock stepped.
//   - Sentinel, Cluster: the same until a failover. A new primary may not have
//     heard of a grant and may grant it again: both then hold, and the first
//     learns of it at its next renewal. ?replicas=n makes that rarer, not
//     impossible. Fence what matters with the token.
//   - Tokens rise: a ticket is the larger of the last one plus 1 and the
//     server's clock in microseconds. A name's last ticket is remembered for one
//     to two hours after its line. So a ticket can fall only if that memory is
//     lost (FLUSHALL, a crash without persistence, a failover) and the clock
//     has stepped back as well, or a failover's new clock is behind.
//   - A dead process's claims end by their TTL, by the server's clock.
//
// What it cannot promise: Redis keys expire by the wall clock of the server.
// Stepping that clock forward by a TTL frees every lock. Run the servers with a
// clock that is slewed, not stepped.
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
// braces in names cannot move them between Cluster slots. It is a hash; line.lua
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
// ?replicas; Cluster adds +cluster|slots +cluster|shards.) Open refuses a user
// who may not run scripts, or not publish and listen to channels under the
// prefix.
package redislock
