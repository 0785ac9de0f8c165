module leasehold/with/tuslock

go 1.26.0

require (
	github.com/tus/tusd/v2 v2.9.1
	go.uber.org/goleak v1.3.0
	golang.org/x/exp v0.0.0-20250106191152-7588d65b2ba8
	leasehold v0.0.0
	leasehold/engine/redis v0.0.0
	leasehold/lab/servers v0.0.0
)

require (
	github.com/redis/rueidis v1.0.79 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	leasehold => ../..
	leasehold/engine/redis => ../../engine/redis
	leasehold/lab/servers => ../../lab/servers
)
