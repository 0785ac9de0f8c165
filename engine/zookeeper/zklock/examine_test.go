package zklock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

const note, warning, problem = engine.SeverityNote, engine.SeverityWarning, engine.SeverityProblem

// patientBounds are the usual ones, with servers that may be away for as long as a test waits.
func patientBounds() bounds {
	b := usualBounds()
	b.word = testutil.Patience
	return b
}

func examined(t testing.TB, url string, o engine.ExamineOptions, b bounds) testutil.Findings {
	t.Helper()
	return testutil.Examined(t, func(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
		return examine(ctx, rawURL, o, b, found)
	}, url, o)
}

// tree is every node of a server below /, with the transactions that made and changed it.
func tree(t testing.TB, conn *zk.Conn, p string) string {
	t.Helper()
	children, stat, err := conn.Children(p)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintln(p, stat.Czxid, stat.Mzxid, stat.Cversion)
	for _, c := range children {
		all += tree(t, conn, strings.TrimSuffix(p, "/")+"/"+c)
	}
	return all
}

// raw is a client of the library's for the length of a test.
func raw(t testing.TB, s *servers.ZooKeeperServer) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{s.Addr}, lasting, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func made(t testing.TB, conn *zk.Conn, p string, flags int32) {
	t.Helper()
	if _, err := conn.Create(p, nil, flags, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("%s: %v", p, err)
	}
}

func TestExamineEnsemble(t *testing.T) {
	t.Parallel()
	e := servers.ZooKeeperEnsemble(t, &servers.ZooKeeperOptions{Config: []string{"maxSessionTimeout=60000", "syncLimit=50"}})
	url := "zookeeper://" + strings.Join(e.Addrs(), ",")
	if f := examined(t, url, engine.ExamineOptions{}, patientBounds()); len(f) > 0 {
		t.Errorf("a healthy ensemble has %s", f)
	}
	if err := e.Servers[2].Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody leads", func() bool {
		leader, err := e.Leader()
		return err == nil && leader != e.Servers[2]
	})
	f := examined(t, url, engine.ExamineOptions{}, patientBounds())
	f.Want(t, warning, "a server cannot be reached", e.Servers[2].Addr)
}

func TestExamineNodes(t *testing.T) {
	s := zooKeeper(t)
	conn := raw(t, s)
	for _, p := range []string{"/app", "/app/locks", "/app/locks/stock", "/app/orders", "/other"} {
		made(t, conn, p, 0)
	}
	made(t, conn, "/app/locks/stock/lock-", zk.FlagSequence|zk.FlagEphemeral)
	made(t, conn, "/app/orders/order-", zk.FlagSequence) // no lock
	url := "zookeeper://" + s.Addr
	before := tree(t, conn, "/")
	f := examined(t, url, engine.ExamineOptions{}, patientBounds())
	f.Healthy(t, problem)
	f.Want(t, warning, "one server alone", s.Addr)
	f.Want(t, note, "sessions are short", "20s at most, so leases of 10s")
	if after := tree(t, conn, "/"); after != before || len(f) != 2 {
		t.Errorf("it reports %s, and the nodes are\n%s\n%s", f, before, after)
	}

	b := patientBounds()
	b.old = 0
	examined(t, url, engine.ExamineOptions{}, b).Want(t, warning, "a place in the queue of a lock is old", "/app/locks/stock/lock-0000000000 of session 0x")

	made(t, conn, "/app/locks/stock/_c_f3f2e3d8-5f1c-4b3a-9e59-0a5d3c1d2e4f-lock-", zk.FlagSequence)
	f = examined(t, url+"/app/locks", engine.ExamineOptions{}, patientBounds())
	f.Want(t, problem, "a place in the queue of a lock belongs to no session", "/app/locks/stock/_c_f3f2e3d8-5f1c-4b3a-9e59-0a5d3c1d2e4f-lock-0000000001, ")
	examined(t, url+"/other", engine.ExamineOptions{}, patientBounds()).None(t, "a place in the queue of a lock belongs to no session")
	examined(t, url, engine.ExamineOptions{Names: []string{"*/orders/*"}}, patientBounds()).
		Want(t, problem, "a place in the queue of a lock belongs to no session", "/app/orders/order-0000000000, ")

	b.children = 1
	examined(t, url, engine.ExamineOptions{}, b).Want(t, warning, "a node has too many children", "/app/locks/stock has 2")
	examined(t, url, engine.ExamineOptions{Limit: 3}, patientBounds()).Want(t, note, "stopped at the limit", "3 nodes")

	if _, err := conn.Create("/secret-lock", nil, 0, zk.DigestACL(zk.PermAll, "somebody", "else")); err != nil {
		t.Fatal(err)
	}
	examined(t, url, engine.ExamineOptions{}, patientBounds()).Want(t, note, "not read", "/secret-lock")
	examined(t, "zookeeper://somebody:else@"+s.Addr, engine.ExamineOptions{}, patientBounds()).None(t, "not read")
	if err := Examine(within(t), url+"/absent", engine.ExamineOptions{}, func(engine.Finding) {}); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("a root that is not there: %v", err)
	}
}

// TestExamineNamesOfTenDigits: a lock of that name is no place in a queue.
func TestExamineNamesOfTenDigits(t *testing.T) {
	s := zooKeeper(t)
	conn := raw(t, s)
	made(t, conn, "/locks", 0)
	made(t, conn, "/locks/order:1700000000", 0)
	made(t, conn, "/locks/order:1700000000/_c_f3f2-lock-", zk.FlagSequence|zk.FlagEphemeral)
	made(t, conn, "/locks/0000000001", 0) // the second child, by whatever name
	made(t, conn, "/locks/order:4000000000", 0)
	b := patientBounds()
	b.old = 0
	f := examined(t, "zookeeper://"+s.Addr, engine.ExamineOptions{}, b)
	f.Want(t, problem, "a place in the queue of a lock belongs to no session", ": /locks/0000000001, ")
	f.Want(t, warning, "a place in the queue of a lock is old", "/locks/order:1700000000/", "-lock-0000000000 of session")
	for _, heading := range []string{"a place in the queue of a lock belongs to no session", "a place in the queue of a lock is old"} {
		if what := f[heading].What; strings.Contains(what, " and ") || strings.Contains(what, ", /") {
			t.Error(what)
		}
	}

	for n, c := range map[string]struct {
		cversion, children int32
		want               bool
	}{
		"lock-0000000002": {2*3 - 1, 1, true}, // three were made, and one is left
		"lock-0000000003": {2*3 - 1, 1, false},
		"lock-1500000000": {2*1_500_000_001 - 1<<32, 0, true},
		"0000000000":      {1, 1, true},
		"lock-":           {9, 9, false},
		"000000000":       {9, 9, false},
		"lock-000000000x": {9, 9, false},
	} {
		if numbered(n, &zk.Stat{Cversion: c.cversion, NumChildren: c.children}) != c.want {
			t.Errorf("%s: %t", n, !c.want)
		}
	}
}

// TestExamineManyNodes: 30,000 nodes, of which a third is read. With -short they are 12,000.
func TestExamineManyNodes(t *testing.T) {
	t.Parallel()
	many := 30_000
	if testing.Short() {
		many = 12_000
	}
	s := ownZooKeeper(t)
	conn := raw(t, s)
	made(t, conn, "/locks", 0)
	for range many / 500 {
		var ops []any
		for range 500 {
			ops = append(ops, &zk.CreateRequest{Path: "/locks/lock-", Acl: zk.WorldACL(zk.PermAll), Flags: zk.FlagSequence})
		}
		if _, err := conn.Multi(ops...); err != nil {
			t.Fatal(err)
		}
	}
	f := examined(t, "zookeeper://"+s.Addr, engine.ExamineOptions{}, patientBounds())
	f.Want(t, note, "stopped at the limit", "10000 nodes")
	f.Want(t, warning, "a node has too many children", "/locks has "+itoa(many))
	f.Want(t, problem, "a place in the queue of a lock belongs to no session", " more")
}

func TestExamineClosedWords(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t, &servers.ZooKeeperOptions{Config: []string{"minSessionTimeout=3000", "maxSessionTimeout=4000"}})
	closed := servers.Impostor(t, "tcp", func(c net.Conn) {
		_, _ = io.WriteString(c, "srvr is not executed because it is not in the whitelist.\n")
		c.Close()
	})
	away := servers.Impostor(t, "tcp", func(c net.Conn) {
		_, _ = io.WriteString(c, "This ZooKeeper instance is not currently serving requests\n")
		c.Close()
	})
	apart := servers.Impostor(t, "tcp", func(c net.Conn) { // with readonlymode.enabled
		_, _ = io.WriteString(c, "Zookeeper version: 3.9.3\nMode: read-only\nNode count: 5\n")
		c.Close()
	})
	f := examined(t, "zookeeper://"+s.Addr+","+closed+","+away+","+apart, engine.ExamineOptions{}, patientBounds())
	f.Want(t, warning, "a server is not in the quorum", away, apart)
	f.Want(t, note, "four-letter words are closed", closed)
	f.Want(t, problem, "no session is long enough", "from 3s to 4s")
}

func TestExamineErrors(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]error{
		"zookeeper://h?hunter=1": engine.ErrURL, "zookeeper://h/a//b": engine.ErrURL,
		"zookeeper://" + servers.Nobody: context.DeadlineExceeded,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := Examine(ctx, url, engine.ExamineOptions{}, func(f engine.Finding) { t.Errorf("%s: %+v", url, f) })
		cancel()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
