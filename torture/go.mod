module leasehold/torture

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/cilium/ebpf v0.22.0
	go.uber.org/goleak v1.3.0
	leasehold v0.0.0
	leasehold/lab/servers v0.0.0
	pgregory.net/rapid v1.3.0
)

require golang.org/x/sys v0.49.0 // indirect

replace (
	leasehold => ..
	leasehold/lab/servers => ../lab/servers
)
