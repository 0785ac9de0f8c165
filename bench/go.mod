module leasehold/bench

go 1.26.0

require (
	github.com/bsm/redislock v0.9.4
	github.com/go-redsync/redsync/v4 v4.16.0
	github.com/redis/go-redis/v9 v9.23.0
	github.com/redis/rueidis v1.0.79
	golang.org/x/sys v0.49.0
	leasehold v0.0.0
	leasehold/engine/redis v0.0.0
)

require golang.org/x/net v0.61.0 // indirect

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
)

replace leasehold => ../

replace leasehold/engine/redis => ../engine/redis

replace leasehold/engine/etcd => ../engine/etcd
