module leasehold/engine/redis

go 1.26.0

require (
	github.com/redis/rueidis v1.0.79
	go.uber.org/goleak v1.3.0
	leasehold v0.0.0
	leasehold/lab/servers v0.0.0
)

require golang.org/x/sys v0.49.0 // indirect

replace (
	leasehold => ../..
	leasehold/lab/servers => ../../lab/servers
)
