module leasehold

go 1.26.0

require golang.org/x/sys v0.49.0

require (
	go.uber.org/goleak v1.3.0
	leasehold/lab/servers v0.0.0
	pgregory.net/rapid v1.3.0
)

replace leasehold/lab/servers => ./lab/servers
