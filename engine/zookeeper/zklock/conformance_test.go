package zklock

import (
	"strings"
	"sync"
	"testing"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/internal/servers"
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
	t.Parallel() // it waits for sessions to end
	s := servers.ZooKeeper(t, nil)
	o.Servers, o.Session = []string{s.Addr}, brief
	var wires sync.Map
	enginetest.Run(t, enginetest.Harness{
		Name: name,
		New: func(t testing.TB) engine.Engine {
			t.Helper()
			w := newWire()
			o := o
			o.Dial = w.Dial
			e, err := New(t.Context(), o)
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
		Committed: committed,
	})
}

func wireOf(wires *sync.Map, e engine.Engine) *wire {
	w, _ := wires.Load(e)
	return w.(*wire)
}
