// Package redis opens the engines that keep locks in Redis or Valkey, from Redis 6.2 on:
// one server, Sentinel, or Cluster.
//
//   - queuelock keeps queues: first come, first served, shared and counted locks,
//     hand-over by one message. It is the default.
//   - plainlock shares keys with programs that use SET NX PX.
//   - redissonlock shares the locks of Java programs that use Redisson.
//   - redlock holds a lock on a majority of several independent servers, as redsync or as
//     Redisson's RedissonRedLock does.
//
// Each package also has its own Open, and a New that takes the caller's client
// (github.com/redis/rueidis). The options of go-redis have these counterparts there:
//
//	Addr                          InitAddress with one element, and ForceSingleClient
//	ClusterOptions.Addrs          InitAddress
//	FailoverOptions.MasterName    Sentinel.MasterSet
//	DB                            SelectDB
//	Username, Password, TLSConfig the same names
//	ReadTimeout, WriteTimeout     ConnWriteTimeout
//	PoolSize                      none: commands share few connections
//	MaxRetries                    none: a script is repeated only by claim ID
//
// # URLs
//
//	redis://[user:password@]host[:6379][/db]
//	rediss://...                           with TLS, always verified
//	unix:///path/to/socket[?db=n]          also redis+unix://
//	redis-sentinel://[user:password@]host:26379,host:26379/primary[/db]
//	redis-cluster://[user:password@]host:6379,host:6379
//	redlock://[user:password@]host:6379,host:6379,host:6379[/db]
//
// rediss-sentinel://, rediss-cluster:// and redlocks:// use TLS. valkey:// and valkeys://
// mean the same as redis:// and rediss://. Write special characters as %xx.
//
// With redisson in place of redis each of them is redissonlock on that server:
// redisson://, redissons:// with TLS, redisson+unix://, redisson-sentinel://,
// redisson-cluster://, redissons-sentinel://, redissons-cluster://.
//
// Parameters:
//
//	prefix=leasehold:        begins every key and channel (plain: none by default;
//	                         not redisson, whose names are the keys)
//	replicas=n               believe a hold only when n replicas have it (WAIT; queues only)
//	restart-delay=1m         the longest TTL, and how long a restarted server grants
//	                         nothing unless it syncs every write (queues only)
//	allow-eviction           accept a maxmemory-policy that may drop locks
//	failover                 another server may take over behind this address: declared
//	                         (not redlock, whose masters nothing may replace)
//	layout=queues            queuelock: the default
//	layout=plain             plainlock instead of queuelock: share locks with SET NX PX
//	kind=lock                of redisson: lock, readwrite or fenced
//	watchdog=30s             of redisson's kind=readwrite: the lockWatchdogTimeout there
//	db=n                     database number
//	password-file=path       password from a file
//	ca=path                  the authority that signed the server's certificate
//	cert=path, key=path      this client's certificate
//	sentinel-user=name, sentinel-password-file=path
//
// redlock, which has no replicas, also has:
//
//	layout=redisson          share locks with RedissonRedLock instead of redsync
//	timeout=20ms             how long a call waits for one master (TTL/20, 5 to 50 ms)
//	max-ttl=1m               the longest TTL, and how long a restarted master has no vote
//	restart-delay=off        a restarted master votes at once
package redis

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"leasehold/engine"
	"leasehold/engine/redis/plainlock"
	"leasehold/engine/redis/queuelock"
	"leasehold/engine/redis/redissonlock"
	"leasehold/engine/redis/redlock"
)

// Open returns the engine that a URL names. Its errors show no password. ctx bounds the
// opening only.
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	scheme, _, _ := strings.Cut(strings.ToLower(rawURL), "://")
	switch {
	case strings.HasPrefix(scheme, "redisson"):
		return redissonlock.Open(ctx, rawURL)
	case scheme == "redlock", scheme == "redlocks":
		return redlock.Open(ctx, rawURL)
	}
	_, query, _ := strings.Cut(rawURL, "?")
	params, _ := url.ParseQuery(query) // the engine refuses a bad query
	switch params.Get("layout") {
	case "", "queues":
		return queuelock.Open(ctx, rawURL)
	case "plain":
		return plainlock.Open(ctx, rawURL)
	default:
		return nil, fmt.Errorf("redis: %w: the layout is unknown: use queues (the default) or plain", engine.ErrURL)
	}
}
