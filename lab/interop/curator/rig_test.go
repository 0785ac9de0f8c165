package curator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/zookeeper/zklock"
	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers"
)

// session is that of every client here, except of those that are killed: the most that
// these servers grant. A lease lasts for half of it, so no machine that is away for some
// seconds ends one.
const session = 20 * time.Second

// brief is the session of a client that is killed, whose end is waited for.
const brief = 4 * time.Second

// granting has servers grant that session.
var granting = fmt.Sprint("maxSessionTimeout=", session.Milliseconds())

// root is the node below which all locks are.
const root = "/locks"

// rig is a server, two Curator clients on it and an administrator, which the tests
// share. Each test has names of its own.
type rig struct {
	program *Program
	server  *servers.ZooKeeperServer
	java    *Process
	other   *Process
	admin   *zk.Conn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	program := built(t)
	r := &rig{program: program, server: servers.ZooKeeper(t, &servers.ZooKeeperOptions{Config: []string{granting}})}
	o := Options{Servers: []string{r.server.Addr}, Session: session}
	r.java, r.other = started(t, program, o), started(t, program, o)
	r.admin = connected(t, r.server.Addr)
	r.create(t, root, "")
	return r
}

// connected is a plain client of ZooKeeper.
func connected(t *testing.T, addrs ...string) *zk.Conn {
	t.Helper()
	conn, err := dial(addrs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func dial(addrs ...string) (*zk.Conn, error) {
	conn, events, err := zk.Connect(addrs, session, zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	for late := time.After(it.Bound); ; {
		select {
		case ev := <-events:
			if ev.State == zk.StateHasSession {
				return conn, nil
			}
		case <-late:
			conn.Close()
			return nil, fmt.Errorf("no session with %v", addrs)
		}
	}
}

// create makes a node that stays.
func (r *rig) create(t *testing.T, path, data string) {
	t.Helper()
	if _, err := r.admin.Create(path, []byte(data), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Parameters of an engine's URL.
const (
	mutexes   = ""
	readWrite = "layout=readwrite"
	tutorials = "layout=nodes&prefix=client"
)

func (r *rig) url(parameters string) string {
	return "zookeeper://" + r.server.Addr + root + "?" + parameters
}

func (r *rig) engine(t *testing.T, parameters string) engine.Engine {
	t.Helper()
	e, err := zklock.Open(it.Within(t), r.url(parameters))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func (r *rig) client(t *testing.T, parameters string) *leasehold.Client {
	t.Helper()
	return it.Client(t, r.engine(t, parameters), nil)
}

// pathOf is the node of a name, which is what Java calls the lock.
func pathOf(name string) string { return root + "/" + name }

// node is one place in a line.
type node struct {
	name     string
	session  string
	watchers []string // sessions that are told when it goes
}

// line is the nodes of a name in the order of their numbers.
func (r *rig) line(t *testing.T, name string) (line []node) {
	t.Helper()
	children, _, err := r.admin.Children(pathOf(name))
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(children, func(a, b string) int {
		// Who reads under its own write has the number of its write.
		return cmp.Or(cmp.Compare(a[len(a)-10:], b[len(b)-10:]), strings.Index(a, "__READ__")-strings.Index(b, "__READ__"))
	})
	watchers := r.watchers(t)
	for _, child := range children {
		path := pathOf(name) + "/" + child
		_, stat, err := r.admin.Get(path)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		line = append(line, node{child, fmt.Sprintf("0x%x", stat.EphemeralOwner), watchers[path]})
	}
	return line
}

// watchers are the sessions that the server would tell of a path.
func (r *rig) watchers(t *testing.T) map[string][]string {
	t.Helper()
	text, err := r.server.Ask("wchp")
	if err != nil {
		t.Fatal(err)
	}
	watchers, path := map[string][]string{}, ""
	for l := range strings.Lines(text) {
		l = strings.TrimRight(l, "\r\n")
		if s, ok := strings.CutPrefix(l, "\t"); ok {
			watchers[path] = append(watchers[path], s)
		} else {
			path = l
		}
	}
	return watchers
}

// holds stands for the place that a holder waits for.
const holds = -1

// lined waits until a line is as it is said: for each place, which place it waits
// for, and that the server tells it and nobody else when that goes. (A client also
// watches its own node.)
func (r *rig) lined(t *testing.T, name string, waitsFor ...int) []node {
	t.Helper()
	var line []node
	it.Until(t, fmt.Sprintf("a line of %v", waitsFor), func() bool {
		line = r.line(t, name)
		if len(line) != len(waitsFor) {
			return false
		}
		notified := make([][]string, len(line))
		for i, before := range waitsFor {
			if before != holds {
				notified[before] = append(notified[before], line[i].session)
			}
		}
		for i, n := range line {
			others := slices.DeleteFunc(n.watchers, func(s string) bool { return s == n.session })
			slices.Sort(others)
			slices.Sort(notified[i])
			if !slices.Equal(others, notified[i]) {
				return false
			}
		}
		return true
	})
	return line
}

// remain waits until so many are in a line. Who gave up may still be told of the
// holder's going: neither client takes a watch back.
func (r *rig) remain(t *testing.T, name string, n int) {
	t.Helper()
	it.Until(t, fmt.Sprintf("%d in the queue", n), func() bool { return len(r.line(t, name)) == n })
}

// unanswered says that calls which wait have not ended.
func unanswered[T any](t *testing.T, calls ...<-chan T) {
	t.Helper()
	for _, c := range calls {
		select {
		case got := <-c:
			t.Errorf("it was let past those before it: %+v", got)
		default:
		}
	}
}
