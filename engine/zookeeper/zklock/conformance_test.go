package zklock

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/zookeeper/internal/nodes"
	"leasehold/lab/servers"
)

// rows is where what was measured is committed.
const rows = "../../../docs/guarantees"

func TestConformance(t *testing.T) {
	conformance(t, "zklock", Options{}, rows)
}

func TestConformanceReadWrite(t *testing.T) {
	conformance(t, "zklock-readwrite", Options{Layout: "readwrite"}, rows)
}

func TestConformanceNodes(t *testing.T) {
	conformance(t, "zklock-nodes", Options{Layout: "nodes"}, rows)
}

func conformance(t *testing.T, name string, o Options, committed string) {
	if testing.Short() && o.Layout != "" {
		servers.LeftOut(t, "it takes two minutes, and the usual layout has run")
	}
	t.Parallel() // it waits for sessions to end
	s := servers.ZooKeeper(t, nil)
	o.Servers = []string{s.Addr}
	var wires sync.Map
	var full atomic.Bool // the server takes no more connections
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if full.Load() {
			return nil, errors.New("connection refused")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	enginetest.Run(t, enginetest.Harness{
		Name: name, SideBySide: true,
		New: func(t testing.TB) engine.Engine {
			t.Helper()
			w := newWire()
			w.dial = dial
			o := o
			o.Dial = w.Dial
			e, err := opened(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			wires.Store(engine.Engine(e), w)
			return e
		},
		Kill: func(t testing.TB, e engine.Engine) { wireOf(&wires, e).kill() },
		Restart: func(t testing.TB) {
			if err := s.Restart(false); err != nil {
				t.Fatal(err)
			}
		},
		LoseReply: func(_ testing.TB, e engine.Engine) func() bool { return wireOf(&wires, e).loseReply() },
		CountKeys: func(t testing.TB) int {
			// Claims; the containers of names go by themselves, and the node of a
			// session with it.
			n, err := s.Monitored("zk_ephemerals_count")
			if err != nil {
				t.Fatal(err)
			}
			children, _, err := peer(t, s).Children("/")
			if err != nil {
				t.Fatal(err)
			}
			for _, child := range children {
				if strings.HasPrefix(child, "%session-") {
					n--
				}
			}
			return n
		},
		RefuseConnections: func(testing.TB) func() {
			full.Store(true)
			return func() { full.Store(false) }
		},
		CountRequests: func(testing.TB) (n int) {
			wires.Range(func(_, w any) bool {
				w.(*wire).mu.Lock()
				defer w.(*wire).mu.Unlock()
				for _, sent := range w.(*wire).sent {
					n += sent
				}
				return true
			})
			return n
		},
		Spoil:     spoils(s),
		Committed: committed,
	})
}

// spoils are what a foreign program may do to the node of a name, with rights to all.
func spoils(s *servers.ZooKeeperServer) map[string]func(t testing.TB, name string) {
	acl, closed := zk.WorldACL(zk.PermAll), zk.DigestACL(zk.PermAll, "somebody", "secret")
	// spoil has a program do that, and remove all that is there in the end.
	spoil := func(do func(conn *zk.Conn, path string, children []string) error) func(t testing.TB, name string) {
		return func(t testing.TB, name string) {
			t.Helper()
			conn := peer(t, s)
			path := "/" + nodes.Encode(name)
			if err := conn.AddAuth("digest", []byte("somebody:secret")); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Create(path, nil, 0, acl); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				t.Fatal(err)
			}
			children, _, err := conn.Children(path)
			if err == nil {
				err = do(conn, path, children)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				children, _, _ := conn.Children(path)
				for _, child := range children {
					_ = conn.Delete(path+"/"+child, -1)
				}
				_ = conn.Delete(path, -1)
			})
		}
	}
	child := func(name string, data []byte) func(t testing.TB, name string) {
		return spoil(func(conn *zk.Conn, path string, _ []string) error {
			_, err := conn.Create(path+"/"+name, data, 0, acl)
			return err
		})
	}
	return map[string]func(t testing.TB, name string){
		"a node of another kind":     child("config", nil),
		"a node without a number":    child("_c_x-lock-", []byte{0xff, 0}),
		"a number that has run over": child("_c_x-lock--2147483648", nil),
		"an ordinary node in front":  child("_c_x-lock-0000000000", make([]byte, 900_000)),
		"a node that may not be read": spoil(func(conn *zk.Conn, path string, _ []string) error {
			_, err := conn.SetACL(path, closed, -1)
			return err
		}),
		"data that is none": spoil(func(conn *zk.Conn, path string, children []string) (err error) {
			for _, child := range children {
				_, one := conn.Set(path+"/"+child, []byte("{\"claim\":{\xff"), -1)
				err = errors.Join(err, one)
			}
			return err
		}),
		"an ephemeral node in its place": spoil(func(conn *zk.Conn, path string, children []string) (err error) {
			for _, child := range children {
				err = errors.Join(err, conn.Delete(path+"/"+child, -1))
			}
			if err = errors.Join(err, conn.Delete(path, -1)); err == nil {
				_, err = conn.Create(path, nil, zk.FlagEphemeral, acl)
			}
			return err
		}),
	}
}

func wireOf(wires *sync.Map, e engine.Engine) *wire {
	w, _ := wires.Load(e)
	return w.(*wire)
}
