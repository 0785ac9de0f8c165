module leasehold/examples

go 1.26.0

require (
	leasehold v0.0.0
	leasehold/engines v0.0.0
)

require (
	github.com/go-zookeeper/zk v1.0.4 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.49.0 // indirect
	leasehold/engine/redis v0.0.0 // indirect
	leasehold/engine/zookeeper v0.0.0 // indirect
)

replace (
	leasehold => ../
	leasehold/engine/redis => ../engine/redis
	leasehold/engine/zookeeper => ../engine/zookeeper
	leasehold/engines => ../engines
)
