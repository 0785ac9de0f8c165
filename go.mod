module leasehold

go 1.26.0

require golang.org/x/sys v0.49.0

require (
	github.com/cockroachdb/datadriven v1.0.3
	go.uber.org/goleak v1.3.0
	leasehold/lab/servers v0.0.0
	pgregory.net/rapid v1.3.0
)

require github.com/pmezard/go-difflib v1.0.0 // indirect

replace leasehold/lab/servers => ./lab/servers
