package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

const note, warning, problem = engine.SeverityNote, engine.SeverityWarning, engine.SeverityProblem

// examinee is a client of the library's for the length of a test.
func examinee(t testing.TB, addr string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + addr}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// state is the revision, which every write raises, and the leases that there are.
func state(t testing.TB, c *clientv3.Client) (revision int64, leases int) {
	t.Helper()
	r, err := c.Get(testutil.Within(t), "x")
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Leases(testutil.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision, len(all.Leases)
}

func TestExamineCluster(t *testing.T) {
	t.Parallel()
	s := servers.EtcdCluster(t, &servers.EtcdOptions{Args: []string{"--strict-reconfig-check=false"}}) // members may be added at once
	url := "etcd://" + strings.Join(s.Addrs(), ",")
	var found testutil.Findings
	testutil.Until(t, "a healthy cluster has findings", func() bool { // a member that was late may be behind, or without a leader
		if found = testutil.Examined(t, Examine, url, engine.ExamineOptions{}); len(found) > 0 {
			t.Logf("a healthy cluster has %s", found)
		}
		return len(found) == 0
	})
	one := servers.Etcd(t, nil)
	testutil.Examined(t, Examine, url+","+one.Addr, engine.ExamineOptions{}).Want(t, problem, "the URL names two clusters", one.Addr)
	c := examinee(t, s.Members[0].Addr)
	added, err := c.MemberAdd(testutil.Within(t), []string{"http://" + servers.Nobody})
	if err != nil {
		t.Fatal(err)
	}
	f := testutil.Examined(t, Examine, url, engine.ExamineOptions{})
	f.Want(t, warning, "a member cannot be reached", servers.Nobody, "has never been started")
	f.Want(t, note, "the number of members is even", "4")
	if _, err := c.MemberRemove(testutil.Within(t), added.Member.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Members[2].Kill(); err != nil {
		t.Fatal(err)
	}
	testutil.Examined(t, Examine, url, engine.ExamineOptions{}).Want(t, warning, "a member cannot be reached", s.Members[2].Addr)
	// It is known from the others.
	testutil.Examined(t, Examine, "etcd://"+s.Members[0].Addr, engine.ExamineOptions{}).Want(t, warning, "a member cannot be reached", s.Members[2].Addr)
	if testing.Short() {
		return // the rest takes 20 s: make test-long runs it
	}
	if err := s.Members[1].Kill(); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "it still has a leader", func() bool {
		_, without := testutil.Examined(t, Examine, url, engine.ExamineOptions{})["a member reports an error"]
		return without
	})
}

// A follower that was stopped answers before it has what was written meanwhile.
func TestExamineLag(t *testing.T) {
	if testing.Short() {
		servers.LeftOut(t, "it writes more than 5,000 keys to three members")
	}
	t.Parallel()
	s := servers.EtcdCluster(t, nil)
	url := "etcd://" + strings.Join(s.Addrs(), ",")
	leader, err := s.Leader()
	if err != nil {
		t.Fatal(err)
	}
	c, late := examinee(t, leader.Addr), s.Members[0]
	if late == leader {
		late = s.Members[1]
	}
	const heading = "a member lags"
	testutil.Until(t, "it lags", func() bool {
		if err := late.Stop(); err != nil {
			t.Fatal(err)
		}
		const writers, writes = 60, farBehind / 50
		ctx := testutil.Within(t)
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() {
				for range writes {
					if _, err := c.Put(ctx, fmt.Sprint(i), ""); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		goOn := time.AfterFunc(300*time.Millisecond, func() { _ = late.Cont() })
		defer goOn.Stop()
		found := testutil.Examined(t, Examine, url, engine.ExamineOptions{})
		_, lags := found[heading]
		if lags {
			found.Want(t, warning, heading, late.Addr, " writes behind")
		}
		return lags || t.Failed()
	})
	testutil.Until(t, "it has caught up", func() bool {
		// etcd 3.6.16 may leave off before the end, and go on with the next write.
		if _, err := c.Put(testutil.Within(t), "x", ""); err != nil {
			t.Fatal(err)
		}
		_, lags := testutil.Examined(t, Examine, url, engine.ExamineOptions{})[heading]
		return !lags
	})
}

func TestExamineKeys(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, nil)
	c, url := examinee(t, s.Addr), "etcd://"+s.Addr
	e := opens(t, url)
	join(t, e, exclusive("my lock"))
	lease, err := c.Grant(testutil.Within(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string, o ...clientv3.OpOption) {
		t.Helper()
		if _, err := c.Put(testutil.Within(t), key, "x", o...); err != nil {
			t.Fatal(err)
		}
	}
	put("/locks/stock/1", clientv3.WithLease(lease.ID))
	put("/registry/leases/kube-system/node")
	put("/orders/7")
	before, leases := state(t, c)
	f := testutil.Examined(t, Examine, url, engine.ExamineOptions{})
	f.Healthy(t, problem)
	f.Want(t, warning, "one member alone", s.Addr)
	// A lease of the engine that nobody uses may end meanwhile.
	if after, n := state(t, c); after != before || n > leases || len(f) != 1 {
		t.Errorf("it reports %s, and etcd is at %d with %d leases, before at %d with %d", f, after, n, before, leases)
	}

	put("/locks/stock/2")
	put("leasehold/line/stock\x007fffffff/7fffffff/abc/1")
	f = testutil.Examined(t, Examine, url, engine.ExamineOptions{})
	f.Want(t, warning, "a lock key has no lease", `"/locks/stock/2"`)
	f.Want(t, problem, "a claim has no lease", `"leasehold/line/stock\x00`)
	testutil.Examined(t, Examine, url+"/elsewhere", engine.ExamineOptions{Names: []string{"/ord*"}}).
		Want(t, warning, "a lock key has no lease", `"/orders/7"`)
	testutil.Examined(t, Examine, url, engine.ExamineOptions{Limit: 2}).Want(t, note, "stopped at the limit", "2 of the keys of other programs")

	for i := range testutil.Sized(300, 110) { // times 100
		var ops []clientv3.Op
		for j := range 100 {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("/many/lock%d/%d", i, j), ""))
		}
		if _, err := c.Txn(testutil.Within(t)).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	f = testutil.Examined(t, Examine, url, engine.ExamineOptions{})
	f.Want(t, note, "stopped at the limit", "10000 of the keys of other programs")
}

func TestExamineFull(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} { // the old one tells its quota in its metrics alone
		s := servers.Etcd(t, &servers.EtcdOptions{Old: old, Args: []string{"--quota-backend-bytes=4000000", "--backend-batch-limit=1"}})
		c, url := examinee(t, s.Addr), "etcd://"+s.Addr
		f := testutil.Examined(t, Examine, url, engine.ExamineOptions{})
		f.None(t, "the database is near its quota")
		if old {
			f.Want(t, problem, "a member is too old", s.Addr+" runs etcd 3.4.")
		}
		fill := func(until func(testutil.Findings) bool) testutil.Findings {
			for i := range 100 {
				_, err := c.Put(testutil.Within(t), fmt.Sprint("filler", i), strings.Repeat("x", 200_000))
				if f := testutil.Examined(t, Examine, url, engine.ExamineOptions{}); err != nil || until(f) {
					return f
				}
			}
			return nil
		}
		fill(func(f testutil.Findings) bool { return f["the database is near its quota"].What != "" }).
			Want(t, warning, "the database is near its quota", s.Addr, "of 4000000 bytes")
		fill(func(testutil.Findings) bool { return false }).Want(t, problem, "a member reports an error", "NOSPACE")
	}
}

// TestExamineWithoutRights: a user of the prefix alone.
func TestExamineWithoutRights(t *testing.T) {
	t.Parallel()
	s := servers.Etcd(t, nil)
	c, ctx := examinee(t, s.Addr), testutil.Within(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.UserAdd(ctx, "root", "r"))
	must(c.UserGrantRole(ctx, "root", "root"))
	must(c.UserAdd(ctx, "app", "p"))
	must(c.RoleAdd(ctx, "app"))
	must(c.RoleGrantPermission(ctx, "app", "leasehold/", clientv3.GetPrefixRangeEnd("leasehold/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(c.UserGrantRole(ctx, "app", "app"))
	must(c.AuthEnable(ctx))
	f := testutil.Examined(t, Examine, "etcd://app:p@"+s.Addr, engine.ExamineOptions{})
	f.Want(t, note, "not read", "the keys of other programs")
	f.Healthy(t, problem)
	if err := Examine(ctx, "etcd://app:wrong@"+s.Addr, engine.ExamineOptions{}, func(engine.Finding) {}); err == nil || !strings.Contains(err.Error(), "wrong user or password") {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestExamineErrors(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]error{
		"etcd://h?hunter=1": engine.ErrURL, "etcd://h/line/x": engine.ErrURL,
		"etcd://" + servers.Nobody:                  nil,
		"etcd://" + servers.Impostor(t, "tcp", nil): nil,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := Examine(ctx, url, engine.ExamineOptions{}, func(f engine.Finding) { t.Errorf("%s: %+v", url, f) })
		cancel()
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
