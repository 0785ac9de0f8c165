package etcdlock

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
)

const (
	// nearFull is the part of the quota from which an examination reports it.
	nearFull = 0.8

	// farBehind is by how many writes a member lags. A member that has so many in its log,
	// and has not applied them, refuses requests.
	farBehind = 5000

	// pageOfKeys is how many keys an examination reads at once.
	pageOfKeys = 1000
)

// Examine reports what is dangerous for locks in the etcd that a URL names, in the form of
// [Open]. It only reads: it opens no engine, asks for no etcd lease and writes no key. It
// calls found from the goroutine of its caller, the worst finding first.
//
// Errors: a malformed URL; no member that answers; a wrong password. A part that this user
// may not read is a finding.
func Examine(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	config, opts, err := parseURL(rawURL)
	if err != nil {
		return fmt.Errorf("etcdlock: %w: %w", engine.ErrURL, err)
	}
	config.Context = ctx
	client, err := clientv3.New(config)
	if err != nil {
		return fmt.Errorf("etcdlock: %w", errors.Join(ctx.Err(), whoAnswers(ctx, &config), explain(err)))
	}
	defer client.Close()
	x := examiner{List: findings.New(o), client: client, tls: config.TLS, keys: keys{opts.Prefix}}
	if err := x.members(ctx); err != nil {
		return fmt.Errorf("etcdlock: %w", errors.Join(whoAnswers(ctx, &config), err))
	}
	for _, part := range []func(context.Context) error{x.claims, x.others} {
		if err := part(ctx); x.Late(ctx, err) {
			break
		} else if err != nil {
			return fmt.Errorf("etcdlock: %w", explain(err))
		}
	}
	x.Report(found)
	return nil
}

// examiner is one examination.
type examiner struct {
	*findings.List
	client *clientv3.Client
	tls    *tls.Config
	keys   keys
}

// said is what one member answered.
type said struct {
	endpoint string
	status   *clientv3.StatusResponse
	err      error
}

// errNeverStarted is of a member that nobody can ask.
var errNeverStarted = errors.New("it tells clients no address: it was added and has never been started")

// statuses asks members side by side what they are.
func (x *examiner) statuses(ctx context.Context, endpoints []string) []said {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answers := make(chan said, len(endpoints))
	for _, endpoint := range endpoints {
		go func() {
			status, err := x.client.Status(ctx, endpoint)
			answers <- said{endpoint, status, err}
		}()
	}
	var all []said
	for range endpoints {
		all = append(all, <-answers)
	}
	slices.SortFunc(all, func(a, b said) int { return strings.Compare(a.endpoint, b.endpoint) })
	return all
}

// members examines each member: those of the URL, and those that they know.
func (x *examiner) members(ctx context.Context) error {
	named := x.statuses(ctx, x.client.Endpoints())
	var failed []error
	clusters := map[uint64]string{}
	for _, m := range named {
		if m.err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", m.endpoint, m.err))
			continue
		}
		clusters[m.status.Header.ClusterId] = m.endpoint
	}
	if len(failed) == len(named) {
		return fmt.Errorf("%w: %w", errNobody, errors.Join(failed...))
	}
	if len(clusters) > 1 {
		for id, endpoint := range clusters {
			x.Add(engine.Finding{
				Severity: engine.SeverityProblem, What: "the URL names two clusters",
				Means: "Each of them would grant the same lock.",
				Do:    "Name the members of one.",
			}, "%s is of %x", endpoint, id)
		}
	}
	asked := map[uint64]bool{}
	for _, m := range named {
		x.member(ctx, m)
		if m.err == nil {
			asked[m.status.Header.MemberId] = true
		}
	}
	bounded, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	list, err := x.client.MemberList(bounded)
	if err != nil {
		x.Unread("the list of members", explain(err), "")
		return ctx.Err()
	}
	voters := 0
	var others []string
	var rest []said
	for _, m := range list.Members {
		if m.IsLearner {
			continue
		}
		voters++
		switch {
		case asked[m.ID]:
		case len(m.ClientURLs) == 0: // it counts for the majority, and cannot be asked
			rest = append(rest, said{endpoint: strings.Join(m.PeerURLs, ", "), err: errNeverStarted})
		case !slices.Contains(x.client.Endpoints(), m.ClientURLs[0]):
			others = append(others, m.ClientURLs[0])
		}
	}
	rest = append(rest, x.statuses(ctx, others)...)
	for _, m := range rest {
		x.member(ctx, m)
	}
	x.lag(append(named, rest...))
	switch {
	case voters == 1:
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "one member alone",
			Means: "While it is down nobody can lock, and if its disk is lost, so are all locks.",
			Do:    "Run three or five members.",
		}, "%s", strings.Join(x.client.Endpoints(), ", "))
	case voters%2 == 0:
		x.Add(engine.Finding{
			Severity: engine.SeverityNote, What: "the number of members is even",
			Means: "An even number survives no more failures than one member less.",
			Do:    "Run three, five or seven members.",
		}, "%d", voters)
	}
	return nil
}

// lag compares what the members of a cluster have applied. They were asked side by side, so
// a few writes lie between their answers.
func (x *examiner) lag(all []said) {
	newest := map[uint64]uint64{} // of each cluster
	for _, m := range all {
		if m.err == nil {
			id := m.status.Header.ClusterId
			newest[id] = max(newest[id], m.status.RaftAppliedIndex)
		}
	}
	for _, m := range all {
		if m.err != nil || m.status.RaftAppliedIndex == 0 { // etcd 3.3 does not say it
			continue
		}
		if behind := newest[m.status.Header.ClusterId] - m.status.RaftAppliedIndex; behind >= farBehind {
			x.Add(engine.Finding{
				Severity: engine.SeverityWarning, What: "a member lags",
				Means: "Programs that are connected to it get locks and notifications late. If another member fails, nobody may lock before this one has caught up.",
				Do:    "Look at its disk, its processor and its network. If it does not catch up, restart it.",
			}, "%s is %d writes behind", m.endpoint, behind)
		}
	}
}

// member examines one.
func (x *examiner) member(ctx context.Context, m said) {
	if m.err != nil {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a member cannot be reached",
			Means: "Each member that is down is a failure less that the rest survives.",
			Do:    "Start it, or correct the address that it tells its clients.",
		}, "%s: %v", m.endpoint, m.err)
		return
	}
	var v version
	if n, _ := fmt.Sscanf(m.status.Version, "%d.%d.%d", &v.major, &v.minor, &v.patch); n < 3 || !v.safe() {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "a member is too old",
			Means: "It may end leases that are alive, or report ones that have ended: two may hold a lock.",
			Do:    "Update to 3.5.28, 3.6.9 or newer.",
		}, "%s runs etcd %s", m.endpoint, m.status.Version)
	}
	for _, reported := range m.status.Errors {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "a member reports an error",
			Means: "With the alarm NOSPACE etcd takes no new locks, with CORRUPT nothing, and without a leader nobody can lock or renew.",
			Do:    "For NOSPACE compact, defragment and disarm the alarm with etcdctl. For the others look into the members' logs.",
		}, "%s: %s", m.endpoint, strings.TrimSpace(reported))
	}
	quota := m.status.DbSizeQuota
	if quota == 0 {
		quota = x.quota(ctx, m.endpoint)
	}
	if quota > 0 && float64(m.status.DbSize) >= nearFull*float64(quota) {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "the database is near its quota",
			Means: "At the quota etcd raises the alarm NOSPACE and takes no new locks.",
			Do:    "Set auto-compaction, run etcdctl defrag, or raise quota-backend-bytes.",
		}, "%s has %d of %d bytes, %d of them in use", m.endpoint, m.status.DbSize, quota, m.status.DbSizeInUse)
	}
}

// quota is that of the database of a member older than 3.6, which only its metrics tell.
// 0: it cannot be known.
func (x *examiner) quota(ctx context.Context, endpoint string) int64 {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: x.tls, DisableKeepAlives: true}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/metrics", nil)
	if err != nil {
		return 0
	}
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	const most = 4 << 20
	for lines := bufio.NewScanner(io.LimitReader(answer.Body, most)); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "etcd_server_quota_backend_bytes "); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return 0
			}
			return int64(n)
		}
	}
	return 0
}

// each calls f for the keys of a range, as many as the limit allows. A range that may not
// be read is noted.
func (x *examiner) each(ctx context.Context, what, from, end string, f func(key string, lease int64)) error {
	seen := 0
	for key := from; ; {
		bounded, cancel := context.WithTimeout(ctx, askTime)
		page, err := x.client.Get(bounded, key, clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(int64(min(pageOfKeys, x.Limit-seen))))
		cancel()
		if err != nil {
			right := "a role that reads the keys"
			if err = explain(err); !errors.Is(err, engine.ErrRefused) {
				right = "" // it did not refuse the user
			}
			x.Unread(what, err, right)
			return ctx.Err()
		}
		for _, kv := range page.Kvs {
			f(string(kv.Key), kv.Lease)
			key = string(kv.Key) + "\x00" // the next one
		}
		if seen += len(page.Kvs); !page.More {
			return nil
		}
		if seen >= x.Limit {
			x.Stopped("%d of %s were read", seen, what)
			return nil
		}
	}
}

// claims examines the queues of leasehold below the prefix.
func (x *examiner) claims(ctx context.Context) error {
	begins := x.keys.prefix + "line/"
	return x.each(ctx, "the keys below "+begins, begins, clientv3.GetPrefixRangeEnd(begins), func(key string, lease int64) {
		if lease == 0 {
			x.Add(engine.Finding{
				Severity: engine.SeverityProblem, What: "a claim has no lease",
				Means: "It never ends by itself, and everybody behind it in the queue waits for ever, or is refused.",
				Do:    "Another program wrote the key: delete it when nobody is in that queue.",
			}, "%q", key)
		}
	})
}

// others examines the keys of other programs.
func (x *examiner) others(ctx context.Context) error {
	return x.each(ctx, "the keys of other programs", "\x00", "\x00", func(key string, lease int64) {
		// What Kubernetes calls a lease is an object, and never a lock of etcd's.
		if lease != 0 || !x.Counts(key) || strings.HasPrefix(key, x.keys.prefix) || strings.HasPrefix(key, "/registry/") {
			return
		}
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a lock key has no lease",
			Means: "If its owner is dead, the name is blocked for ever: no lease ends the key.",
			Do:    "Find out whether the owner lives. If not, delete the key. Put a lock on a lease that its owner keeps alive.",
		}, "%q", key)
	})
}
