// Module servers is private servers, proxies and fleets of processes for tests. Programs
// that use leasehold do not get it: only tests import it.
module leasehold/lab/servers

go 1.26.0

require (
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	leasehold v0.0.0
)

replace leasehold => ../..
