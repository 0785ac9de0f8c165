module leasehold/with/gocronlock

go 1.26.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/google/uuid v1.6.0
	go.uber.org/goleak v1.3.0
	leasehold v0.0.0
	leasehold/engine/redis v0.0.0
	leasehold/lab/servers v0.0.0
)

require (
	github.com/jonboulle/clockwork v0.5.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	leasehold => ../..
	leasehold/engine/redis => ../../engine/redis
	leasehold/lab/servers => ../../lab/servers
)
