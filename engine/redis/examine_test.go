package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

const note, warning, problem = engine.SeverityNote, engine.SeverityWarning, engine.SeverityProblem

func examined(t testing.TB, url string, o engine.ExamineOptions) testutil.Findings {
	t.Helper()
	return testutil.Examined(t, redis.Examine, url, o)
}

// unchanged requires that an examination leaves every key as it is.
func unchanged(t testing.TB, r *servers.RedisServer, examine func()) {
	t.Helper()
	before := snapshot(t, r)
	examine()
	if after := snapshot(t, r); after != before {
		t.Errorf("the examination changed the keys:\n%s\n%s", before, after)
	}
}

// snapshot is every key, type and value, and how often the server was told to write.
func snapshot(t testing.TB, r *servers.RedisServer) string {
	t.Helper()
	var b strings.Builder
	dirty, err := r.Info("rdb_changes_since_last_save")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&b, do(t, r, "DBSIZE"), dirty)
	for _, key := range do(t, r, "SORT", "nothing", "BY", "nosort").([]any) {
		fmt.Fprintln(&b, key)
	}
	if do(t, r, "DBSIZE").(int64) < 100 {
		for _, key := range do(t, r, "KEYS", "*").([]any) {
			fmt.Fprintf(&b, "%q %q\n", key, do(t, r, "DUMP", key.(string)))
		}
	}
	return b.String()
}

func TestExamineHealthy(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{Durable: true})
	e := open(t, "redis://"+r.Addr)
	join(t, e, exclusive("my lock")) // leasehold's own keys are none of its business
	unchanged(t, r, func() {
		for _, form := range []string{"redis://%s", "valkey://%s?layout=plain", "redisson://%s?kind=readwrite", "redis://%s?replicas=0&restart-delay=1m"} {
			if f := examined(t, fmt.Sprintf(form, r.Addr), engine.ExamineOptions{}); len(f) > 0 {
				t.Errorf("%s: a healthy server has %s", form, f)
			}
		}
	})
	stock := servers.Redis(t, nil)
	f := examined(t, "redis://"+stock.Addr, engine.ExamineOptions{})
	f.Healthy(t, problem)
	f.Want(t, warning, "a restart forgets locks", "keeps nothing", stock.Addr)
	examined(t, "redis://"+stock.Addr+"?restart-delay=1m", engine.ExamineOptions{}).Healthy(t, warning)
}

func TestExamineSettings(t *testing.T) {
	t.Parallel()
	for heading, c := range map[string]struct {
		args     []string
		severity engine.Severity
		detail   string
	}{
		"keys may be evicted":                   {[]string{"--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"}, problem, "allkeys-lru"},
		"keys may be evicted ":                  {[]string{"--maxmemory-policy", "volatile-ttl"}, warning, "volatile-ttl"},
		"a restart forgets locks":               {[]string{"--save", "60 1"}, warning, "snapshots only"},
		"a crash of the machine forgets locks":  {[]string{"--appendonly", "yes"}, note, "everysec"},
		"a crash of the machine forgets locks ": {[]string{"--appendonly", "yes", "--appendfsync", "no"}, warning, "appendfsync no"},
		"the connections are nearly used up":    {[]string{"--maxclients", "2"}, warning, "of 2"},
		"the memory is nearly full":             {[]string{"--maxmemory", "500kb"}, warning, "of 512000 bytes"},
	} {
		r := servers.Redis(t, &servers.RedisOptions{Args: c.args})
		examined(t, "redis://"+r.Addr, engine.ExamineOptions{}).Want(t, c.severity, strings.TrimSpace(heading), c.detail)
	}
}

func TestExamineNamesAFullServer(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	do(t, r, "CONFIG", "SET", "maxclients", "1") // do is that one
	err := redis.Examine(within(t), "redis://"+r.Addr, engine.ExamineOptions{}, func(engine.Finding) {})
	if err == nil || !strings.Contains(err.Error(), "raise its maxclients") {
		t.Errorf("%v", err)
	}
}

func TestExamineBrokenDisk(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{Args: []string{"--save", "3600 1000000", "--dbfilename", "folder"}})
	if err := os.Mkdir(r.Dir+"/folder", 0o700); err != nil { // where the snapshot should be
		t.Fatal(err)
	}
	do(t, r, "BGSAVE")
	redistest.Until(t, "the snapshot has not failed", func() bool {
		status, err := r.Info("rdb_last_bgsave_status")
		return err == nil && status == "err"
	})
	examined(t, "redis://"+r.Addr, engine.ExamineOptions{}).Want(t, problem, "the server cannot write its file", r.Addr)
}

// spoiled puts keys into a server, each of which is one finding.
func spoiled(t testing.TB, r *servers.RedisServer) {
	t.Helper()
	const holder = "f3f2e3d8-5f1c-4b3a-9e59-0a5d3c1d2e4f:41"
	for _, cmd := range []string{
		"SET order:lock:7 host-1",                   // SETNX, and no EXPIRE
		"SET my-mutex 1 PX 500000000",               // nearly six days
		"SET getset.lock 1500000000000",             // by GETSET: over since 2017
		"SET fine.lock host-2 PX 30000",             // healthy
		"SET taken.lock 1500000000000 PX 30000",     // a time, but the server ends it
		"SET other value",                           // no lock
		"HSET stock:42 " + holder + " 1",            // Redisson, and no expiry
		"HSET account:1 name Snow",                  // a hash that is none
		"SET redisson_lock_queue:{pay} x",           // where a fair lock has its list
		"SET redisson_lock_token:{stock:42} 17",     // a counter that never ends
		"SET redisson_unlock_latch:{pay}:f3f2 1",    // of an unlock under way
		"SET leasehold:mutex:{aa}:lock theirs",      // leasehold's
		"HSET rw mode write " + holder + ":write 1", // a write lock, and no expiry
		"SET {rw}:" + holder + ":rwlock_timeout:1 1",
	} {
		do(t, r, strings.Fields(cmd)...)
	}
}

func TestExamineKeys(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{Durable: true})
	spoiled(t, r)
	do(t, r, "SET", "held.lock", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)) // by GETSET, and held
	var f testutil.Findings
	unchanged(t, r, func() { f = examined(t, "redis://"+r.Addr, engine.ExamineOptions{}) })
	f.Want(t, warning, "a lock key has no expiry", `"order:lock:7", not used for`, `"held.lock", not used for`)
	f.Want(t, warning, "a lock key expires in days", `"my-mutex" in 138h`)
	f.Want(t, warning, "a lock has a time stamp that has passed", `"getset.lock" says 2017-07-14T02:40:00Z`)
	f.Want(t, problem, "a lock of Redisson has no expiry", `"stock:42" held by f3f2e3d8-`, `"rw" held by f3f2`)
	f.Want(t, problem, "a key of Redisson has the wrong type", `"redisson_lock_queue:{pay}" is a string`)
	for _, wrong := range []string{"fine", "taken", "other", "account", "token", "latch", "leasehold", "rwlock_timeout"} {
		if strings.Contains(f.String(), wrong) {
			t.Errorf("%q is reported: %s", wrong, f)
		}
	}
	if len(f) != 5 {
		t.Errorf("it reports %s", f)
	}

	f = examined(t, "redisson://"+r.Addr, engine.ExamineOptions{})
	f.Want(t, problem, "a key of Redisson has the wrong type", `.lock" is a string where Redisson needs a hash`, "and 2 more")
	if strings.Contains(f.String(), "latch") {
		t.Errorf("a key of an unlock under way is reported: %s", f)
	}

	f = examined(t, "redis://"+r.Addr, engine.ExamineOptions{Names: []string{"OTHER"}})
	f.Want(t, warning, "a lock key has no expiry", `"other"`)
	f.None(t, "a lock key expires in days")
}

// TestExamineLeavesTheTimeWithoutUse that it prints: to read a value is a use of its key. A
// small number has none of its own: for the server it is one object with all others.
func TestExamineLeavesTheTimeWithoutUse(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{Durable: true})
	do(t, r, "SET", "a:lock", "host-1")
	do(t, r, "SET", "b:lock", "1")
	testutil.Until(t, "the key is not old", func() bool { return do(t, r, "OBJECT", "IDLETIME", "a:lock").(int64) > 1 })
	for range 2 {
		f := examined(t, "redis://"+r.Addr, engine.ExamineOptions{})
		f.Want(t, warning, "a lock key has no expiry", `"a:lock", not used for `, `"b:lock"`)
		if what := f["a lock key has no expiry"].What; strings.Contains(what, `"a:lock", not used for 0s`) || strings.Contains(what, `"b:lock", not used`) {
			t.Error(what)
		}
	}
	if idle := do(t, r, "OBJECT", "IDLETIME", "a:lock").(int64); idle < 2 {
		t.Errorf("after an examination the key counts as used %d s ago", idle)
	}
}

// TestExamineReadsNoLargeValues, of which a hash may have many.
func TestExamineReadsNoLargeValues(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{Durable: true})
	large := strings.Repeat("x", 4<<20)
	for i := range 4 {
		do(t, r, "HSET", "h", fmt.Sprint("f", i), large)
		do(t, r, "SET", fmt.Sprint("lock", i), large)
	}
	sent := func() int {
		text, err := r.Info("total_net_output_bytes")
		n, _ := strconv.Atoi(text)
		if err != nil || n == 0 {
			t.Fatal(text, err)
		}
		return n
	}
	before := sent()
	examined(t, "redis://"+r.Addr, engine.ExamineOptions{}).Want(t, warning, "a lock key has no expiry", `"lock3"`)
	if n := sent() - before; n > 1<<20 {
		t.Errorf("an examination reads %d bytes", n)
	}
}

func TestExamineIsBounded(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{Durable: true})
	do(t, r, "EVAL", "for i = 1, 30000 do redis.call('SET', 'lock:' .. i, 'x') end", "0")
	calls := func(name string) int {
		for l := range strings.Lines(do(t, r, "INFO", "commandstats").(string)) {
			if rest, ok := strings.CutPrefix(l, "cmdstat_"+name+":calls="); ok {
				n, _, _ := strings.Cut(rest, ",")
				k, _ := strconv.Atoi(n)
				return k
			}
		}
		return 0
	}
	unchanged(t, r, func() {
		f := examined(t, "redis://"+r.Addr, engine.ExamineOptions{})
		f.Want(t, note, "stopped at the limit", "10000 keys")
		f.Want(t, warning, "a lock key has no expiry", "and 9995 more")
	})
	if scans, types := calls("scan"), calls("type"); scans > 21 || types != 10_000 {
		t.Errorf("%d SCAN and %d TYPE for 10,000 keys", scans, types)
	}
	f := examined(t, "redis://"+r.Addr, engine.ExamineOptions{Limit: 700})
	f.Want(t, note, "stopped at the limit", "700 keys")
	examined(t, "redis://"+r.Addr, engine.ExamineOptions{Limit: 40_000}).None(t, "stopped at the limit")
}

func TestExamineReplicas(t *testing.T) {
	t.Parallel()
	primary := servers.Redis(t, &servers.RedisOptions{Durable: true})
	replica := servers.Redis(t, &servers.RedisOptions{Durable: true})
	host, port, _ := net.SplitHostPort(primary.Addr)
	do(t, replica, "REPLICAOF", host, port)
	url := "redis://" + primary.Addr
	redistest.Until(t, "the replica is not there", func() bool {
		state, err := primary.Info("slave0")
		return err == nil && strings.Contains(state, "state=online")
	})
	f := examined(t, url, engine.ExamineOptions{})
	f.Healthy(t, problem)
	f.Want(t, note, "a failover may grant twice", "1 replicas")
	f.Want(t, warning, "a primary that is cut off goes on granting", primary.Addr)
	examined(t, url+"?replicas=2", engine.ExamineOptions{}).Want(t, problem, "too few replicas", "has 1, and ?replicas=2")
	examined(t, "redis://"+replica.Addr, engine.ExamineOptions{}).Want(t, problem, "the server is a replica", "follows 127.0.0.1")

	do(t, primary, "CONFIG", "SET", "min-replicas-to-write", "1")
	examined(t, url+"?replicas=1", engine.ExamineOptions{}).Healthy(t, warning)

	if err := replica.Stop(); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "no replica lags", func() bool {
		_, lags := examined(t, url, engine.ExamineOptions{})["a replica lags"]
		return lags
	})
	if err := replica.Cont(); err != nil {
		t.Fatal(err)
	}
}

func TestExamineSentinelAndCluster(t *testing.T) {
	t.Parallel()
	s := servers.Sentinel(t, &servers.RedisOptions{Durable: true})
	s.Patient(t, time.Minute)
	f := examined(t, redistest.SentinelURL(s), engine.ExamineOptions{})
	f.Healthy(t, problem)
	f.Want(t, note, "a failover may grant twice", "127.0.0.1:")

	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	for i := range 40 { // on every primary
		key := fmt.Sprintf("lock:%d", i)
		n, err := c.NodeOf(key)
		if err != nil {
			t.Fatal(err)
		}
		do(t, n, "SET", key, "x")
	}
	f = examined(t, redistest.ClusterURL(c), engine.ExamineOptions{})
	f.Healthy(t, problem)
	f.Want(t, warning, "a lock key has no expiry", "and 35 more")
	f.Want(t, warning, "a restart forgets locks", "keeps nothing")
	forgets := f["a restart forgets locks"].What
	if named := func(addr string) bool { return strings.Contains(forgets, addr) }; !slices.ContainsFunc(c.Addrs(), named) {
		t.Errorf("%q names none of %q", forgets, c.Addrs()) // it names five at most: which ones depends on their ports
	}
	f.None(t, "the server is a replica")
	examined(t, "redis://"+c.Nodes[0].Addr, engine.ExamineOptions{}).Want(t, problem, "the server is one node of a Cluster", c.Nodes[0].Addr)

	// Nodes that tell no host are where they were asked.
	for _, n := range c.Nodes {
		if _, err := n.Do("CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint"); err != nil {
			t.Logf("a Redis before 7 always tells its host: %v", err)
			return
		}
	}
	f = examined(t, redistest.ClusterURL(c), engine.ExamineOptions{})
	f.None(t, "not read")
	f.Want(t, warning, "a lock key has no expiry", "and 35 more")
}

// TestExamineWithoutRights: each part that may not be read is a note, and names the right.
func TestExamineWithoutRights(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	spoiled(t, r)
	for rules, want := range map[string][]string{
		"~* -@all +hello +ping":                   {"INFO of", "the keys", "no permissions"},
		"~* +@all -config":                        {"CONFIG GET of"},
		"~* +@all -hrandfield":                    {"the keys"},
		"~fine* +@all":                            {"the keys"},
		"~* +@read +scan +info +hello +ping -get": {"CONFIG GET of"},
	} {
		do(t, r, append([]string{"ACL", "SETUSER", "reader", "reset", "on", ">p"}, strings.Fields(rules)...)...)
		f := examined(t, "redis://reader:p@"+r.Addr, engine.ExamineOptions{})
		f.Want(t, note, "not read", want...)
		if what := f["not read"]; !strings.Contains(what.Do, "+") {
			t.Errorf("%s: no right is named: %+v", rules, what)
		}
	}
	// What the finding names is enough.
	const enough = "+hello +ping +info +config|get +scan +type +pttl +getrange +object|encoding +object|idletime +hrandfield ~*"
	page, err := os.ReadFile("../../docs/doctor.md")
	if err != nil || !strings.Contains(string(page), "`"+enough+"`") {
		t.Errorf("docs/doctor.md does not have the tested rules %q: %v", enough, err)
	}
	do(t, r, append([]string{"ACL", "SETUSER", "doctor", "reset", "on", ">p"}, strings.Fields(enough)...)...)
	f := examined(t, "redis://doctor:p@"+r.Addr, engine.ExamineOptions{})
	f.None(t, "not read")
	f.Want(t, warning, "a lock key has no expiry", "order:lock:7")
}

func TestExamineErrors(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]error{
		"redis://h?hunter=1": engine.ErrURL, "redis://h?replicas=x": engine.ErrURL,
		"redis://" + servers.Nobody: nil, "redis-sentinel://h:1": engine.ErrURL,
		"redis://" + servers.Impostor(t, "tcp", nil): context.DeadlineExceeded,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := redis.Examine(ctx, url, engine.ExamineOptions{}, func(f engine.Finding) { t.Errorf("%s: %+v", url, f) })
		cancel()
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
