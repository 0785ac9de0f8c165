package curator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine/zookeeper/zklock"
	it "leasehold/lab/interop/internal/interoptest"
	"leasehold/lab/servers"
)

// Both sides on three servers, whose leader dies while one side holds and the other
// waits: neither takes that for a release, and the release is heard under the next.
func TestSharedWhileTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	program := built(t)
	// Half of a session may be trusted, and an election is to fit into that. A member that is
	// away for some seconds makes no election of its own.
	e := servers.ZooKeeperEnsemble(t, &servers.ZooKeeperOptions{Config: []string{granting, "syncLimit=50"}})
	java := started(t, program, Options{Servers: e.Addrs(), Session: session}).Thread(1)
	admin := connected(t, e.Addrs()...)
	if _, err := admin.Create(root, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	eng, err := zklock.Open(it.Within(t), "zookeeper://"+strings.Join(e.Addrs(), ",")+root)
	if err != nil {
		t.Fatal(err)
	}
	ours := it.Client(t, eng, nil) // which closes the engine

	inLine := func(t *testing.T, n int) {
		t.Helper()
		it.Until(t, "the claims in the queue", func() bool {
			children, _, err := admin.Children(pathOf(it.NameOf(t)))
			return err == nil && len(children) == n
		})
	}
	killLeader := func(t *testing.T) (restart func()) {
		t.Helper()
		leader, err := e.Leader()
		if err != nil {
			t.Fatal(err)
		}
		if err := leader.Kill(); err != nil {
			t.Fatal(err)
		}
		it.Until(t, "the next leader", func() bool {
			next, err := e.Leader()
			return err == nil && next != leader
		})
		return func() {
			if err := leader.Restart(false); err != nil {
				t.Error(err)
			}
			it.Until(t, "three servers again", func() bool {
				return !slices.ContainsFunc(e.Servers, func(s *servers.ZooKeeperServer) bool {
					_, err := s.Mode()
					return err != nil
				})
			})
		}
	}

	t.Run("ours holds", func(t *testing.T) {
		path := pathOf(it.NameOf(t))
		held := it.Got(t, it.Lock(t, ours, it.NameOf(t)))
		waits := java.Go("acquire", Mutex, path)
		inLine(t, 2)
		it.Until(t, "a lease that outlasts an election", func() bool { return held.Remaining() > 5*time.Second })
		restart := killLeader(t)
		defer restart()
		inLine(t, 2)
		unanswered(t, waits)
		if !held.Valid() {
			t.Error("the lease was lost with the leader")
		}
		it.Unlocked(t, held)
		it.Done(t, waits)
		it.Does(t, java, "release", Mutex, path)
	})
	t.Run("Java holds", func(t *testing.T) {
		path := pathOf(it.NameOf(t))
		it.Does(t, java, "acquire", Mutex, path)
		waits := it.Lock(t, ours, it.NameOf(t))
		inLine(t, 2)
		restart := killLeader(t)
		defer restart()
		inLine(t, 2)
		unanswered(t, waits)
		it.Does(t, java, "release", Mutex, path)
		it.Unlocked(t, it.Got(t, waits))
	})
}
