module leasehold/engine/mysql

go 1.26.0

require (
	github.com/go-sql-driver/mysql v1.10.1
	go.uber.org/goleak v1.3.0
	leasehold v0.0.0
	leasehold/lab/servers v0.0.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace (
	leasehold => ../..
	leasehold/lab/servers => ../../lab/servers
)
