// Package plainlock keeps locks in Redis as programs without a library do. The lock of a
// name is the key of that name. Its holder sets the key with NX and PX to a secret, and
// deletes it only while it still has that value. Redsync, bsm/redislock and countless
// scripts do the same, so they and leasehold exclude each other: for a migration without a
// pause, or for good.
//
// It promises less than package queuelock:
//
//   - Exclusive locks only.
//   - No order: any waiter that tries at a good moment obtains the lock.
//   - No notifications: a waiter polls after a random time below 90 ms.
//   - The queue does not show waiters.
//
// At most one holds as long as the server neither restarts without its data nor has its
// clock stepped forward. With Sentinel or Cluster that holds until a failover or a network
// partition (see package queuelock). There is no ?replicas here, so set
// min-replicas-to-write and min-replicas-max-lag on the servers. Tokens come from a key
// beside the lock. They rise over the holds of other programs too, as far as the server's
// clock does.
//
// # Keys
//
// The lock of a name is the key prefix+name. The key beside it begins with
// leasehold:plain: and expires some two hours after the last hold. A program that sets a
// key without an expiry holds for ever, here as everywhere. The queue then shows a TTL of
// 0, and RevokeNow with ticket 0 removes the key. The engine refuses a name whose key
// begins like the keys beside other locks.
//
// # The least a user needs
//
//	~* +evalsha +eval +time +get +set +del +pttl +pexpire +hmget +hset +scan
//	+info +ping +hello +auth +select
//
// Without +info the engine does not check the eviction policy. Cluster also needs
// +cluster|slots +cluster|shards.
package plainlock
