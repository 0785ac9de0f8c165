// Package plainlock keeps locks in Redis as programs without a library do: the
// lock of a name is the key of that name, set with NX and PX to its holder's
// secret and deleted only while it still has that value. redsync, bsm/redislock
// and countless scripts do the same, so they and leasehold exclude each other:
// for a migration without a pause, or for good.
//
// It promises less than queues do (package queuelock). It has exclusive locks
// only, no order (who tries at a good moment has it), no notifications (who waits looks
// again, after a random time below 90 ms) and nobody sees who waits. At most one
// holds as long as the server neither restarts without its data nor has its
// clock stepped forward; with Sentinel or Cluster, until a failover or a parted
// network (see package queuelock; there is no ?replicas here, so set
// min-replicas-to-write and min-replicas-max-lag on the servers). Tokens come from a
// key beside the lock and rise over the holds of others too, as far as the
// server's clock does.
//
// # Keys
//
// The lock of a name is the key prefix+name. The key beside it begins with
// leasehold:plain: and goes by itself some two hours after the last hold. A
// program that sets a key without an expiry holds for ever, here as everywhere: a
// queue then shows a TTL of 0, and Revoke with ticket 0, at once, removes the key. A name
// whose key begins as the keys beside other locks do is refused.
//
// # The least a user needs
//
//	~* +evalsha +eval +time +get +set +del +pttl +pexpire +hmget +hset +scan
//	+info +ping +hello +auth +select
//
// (+info may be left out, then the eviction policy is not checked; Cluster adds
// +cluster|slots +cluster|shards.)
package plainlock
