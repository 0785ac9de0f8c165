package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// version is that of a server.
type version struct{ major, minor, patch int }

// safe reports whether a server keeps leases as this engine needs it. Before
// 3.5.28 and 3.6.9 a leader that had been replaced could revoke leases, renewals
// of revoked leases were reported as successes, and reads could be stale.
func (v version) safe() bool {
	switch {
	case v.major != 3:
		return v.major > 3
	case v.minor == 5:
		return v.patch >= 28
	case v.minor == 6:
		return v.patch >= 9
	}
	return v.minor > 6
}

// askTime bounds how long one member is waited for.
const askTime = 3 * time.Second

// checkVersions refuses a cluster with a member that is too old. Members that do
// not answer are not judged, as long as one does; nor are those that come later.
func checkVersions(ctx context.Context, client *clientv3.Client) error {
	type answer struct {
		endpoint, version string
		err               error
	}
	endpoints := client.Endpoints()
	answers := make(chan answer, len(endpoints))
	for _, endpoint := range endpoints {
		go func() {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			r, err := client.Status(ctx, endpoint)
			if err != nil {
				answers <- answer{endpoint: endpoint, err: err}
				return
			}
			answers <- answer{endpoint: endpoint, version: r.Version}
		}()
	}
	var failed []error
	for range endpoints {
		a := <-answers
		if a.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", a.endpoint, a.err))
			continue
		}
		var v version
		if n, _ := fmt.Sscanf(a.version, "%d.%d.%d", &v.major, &v.minor, &v.patch); n < 3 || !v.safe() {
			return fmt.Errorf("%s runs etcd %s, which may end leases that are alive or report ones that have ended: "+
				"update to 3.5.28, 3.6.9 or newer, or accept that two may hold a lock with ?allow-old (Options.AllowOld)", a.endpoint, a.version)
		}
	}
	if len(failed) == len(endpoints) {
		return errors.Join(failed...)
	}
	return nil
}
