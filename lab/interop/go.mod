module leasehold/lab/interop

go 1.26.0

require (
	github.com/go-zookeeper/zk v1.0.4
	go.uber.org/goleak v1.3.0
	leasehold v0.0.0
	leasehold/engine/redis v0.0.0
	leasehold/engine/zookeeper v0.0.0
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace leasehold => ../

replace leasehold/engine/redis => ../engine/redis

replace leasehold/engine/zookeeper => ../engine/zookeeper
