module leasehold/with/certmagiclock

go 1.26.0

require (
	github.com/caddyserver/certmagic v0.25.6
	github.com/letsencrypt/pebble/v2 v2.10.1
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.61.0
	leasehold v0.0.0
	leasehold/engine/redis v0.0.0
	leasehold/lab/servers v0.0.0
)

require (
	github.com/caddyserver/zerossl v0.1.6 // indirect
	github.com/go-jose/go-jose/v4 v4.1.4 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/letsencrypt/challtestsrv v1.4.2 // indirect
	github.com/libdns/libdns v1.1.1 // indirect
	github.com/mholt/acmez/v3 v3.1.7 // indirect
	github.com/miekg/dns v1.1.73 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/zeebo/blake3 v0.2.4 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	go.uber.org/zap/exp v0.3.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace (
	leasehold => ../..
	leasehold/engine/redis => ../../engine/redis
	leasehold/lab/servers => ../../lab/servers
)
