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

// errNobody: no member answered.
var errNobody = errors.New("no etcd answers")

// errUnfit: a member is too old, or of another cluster.
var errUnfit = errors.New("this etcd is not safe for locks")

// checkVersions asks all members at once and refuses a cluster with one that is too
// old, and addresses of more clusters than one, each of which would grant the same
// lock. Where a majority is enough, one that is stopped is not waited for. Members that
// do not answer are not judged, as long as one does: they are when they come back, see
// rejudge.
func checkVersions(ctx context.Context, client *clientv3.Client, allowOld, majority bool) error {
	type answer struct {
		endpoint string
		status   *clientv3.StatusResponse
		err      error
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	endpoints := client.Endpoints()
	answers := make(chan answer, len(endpoints))
	for _, endpoint := range endpoints {
		go func() {
			r, err := client.Status(ctx, endpoint)
			answers <- answer{endpoint, r, err}
		}()
	}
	enough := len(endpoints)
	if majority {
		enough = len(endpoints)/2 + 1
	}
	var failed []error
	var first answer
	for got := 0; got < enough && got+len(failed) < len(endpoints); {
		a := <-answers
		if a.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", a.endpoint, a.err))
			continue
		}
		var v version
		if n, _ := fmt.Sscanf(a.status.Version, "%d.%d.%d", &v.major, &v.minor, &v.patch); !allowOld && (n < 3 || !v.safe()) {
			return fmt.Errorf("%w: %s runs etcd %s, which may end leases that are alive or report ones that have ended: "+
				"update to 3.5.28, 3.6.9 or newer, or accept that two may hold a lock with ?allow-old (Options.AllowOld)", errUnfit, a.endpoint, a.status.Version)
		}
		if got++; got == 1 {
			first = a
		}
		if one, other := first.status.Header.ClusterId, a.status.Header.ClusterId; one != other {
			return fmt.Errorf("%w: %s is of cluster %x and %s of %x, so each would grant the same lock: name members of one cluster", errUnfit, first.endpoint, one, a.endpoint, other)
		}
	}
	if len(failed) == len(endpoints) {
		return fmt.Errorf("%w: %w", errNobody, errors.Join(failed...))
	}
	return nil
}
