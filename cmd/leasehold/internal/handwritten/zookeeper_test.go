package handwritten_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold"
	"leasehold/cmd/leasehold/internal/handwritten"
	"leasehold/lab/servers"
)

// waiting returns when two claims are in the queue.
func waiting(t *testing.T, locks *leasehold.Client) {
	t.Helper()
	for ctx := within(t); ; {
		q, err := locks.Queue(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if len(q.Claims) == 2 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// crowd is how many want the lock, one after the other.
const crowd = 12

// Sequential nodes that watch the parent: each change has every waiter read the list.
func TestAWatchOnTheParentWakesEveryWaiter(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t, &servers.ZooKeeperOptions{Tick: time.Second})
	way, err := servers.NewZooKeeperProxy(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { way.Close() })

	connect := func() *zk.Conn {
		conn, _, err := zk.Connect([]string{way.Addr}, 4*time.Second, zk.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	for _, parent := range []string{"/parent", "/ours"} {
		if _, err := connect().Create(parent, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	var theirs, mine []func(context.Context) (func() error, error)
	for range crowd {
		l := handwritten.NewWatchParent(connect(), "/parent")
		theirs = append(theirs, func(ctx context.Context) (func() error, error) {
			return func() error { return l.Unlock(ctx) }, l.Lock(ctx)
		})
		locks := oursTTL(t, "zookeeper://"+way.Addr+"/ours", 0)
		mine = append(mine, func(ctx context.Context) (func() error, error) {
			l, err := locks.Lock(ctx, name)
			if err != nil {
				return nil, err
			}
			return l.Unlock, nil
		})
	}
	children := func() int { return way.Commands()["getChildren"] }
	// Each of the waiters reads the list when it comes, and again at each change before it
	// holds: of those there are as many as holders and waiters before it. A waiter that is
	// late reads once for several changes.
	const few = 4 * crowd
	if n := oneByOne(t, theirs, children); n <= few {
		t.Errorf("%d lists were read for %d holders: the waiters were to wake each time", n, crowd)
	}
	if n := oneByOne(t, mine, children); n > few {
		t.Errorf("ours read %d lists for %d holders", n, crowd)
	}
}

// oneByOne has all want the lock and give it back, and returns how much count grew.
func oneByOne(t *testing.T, all []func(context.Context) (func() error, error), count func() int) int {
	before := count()
	ctx := within(t)
	var wg sync.WaitGroup
	for _, lock := range all {
		wg.Go(func() {
			unlock, err := lock(ctx)
			if err == nil {
				time.Sleep(50 * time.Millisecond) // the others come meanwhile, and read the list
				err = unlock()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return count() - before
}

// The queue of sequential nodes can be shared by ?layout=nodes if the old lock holds only
// by a list that it has just read. The lock of the tutorials enters beside any holder.
func TestWhichSequentialNodesCanBeShared(t *testing.T) {
	t.Parallel()
	s := servers.ZooKeeper(t, &servers.ZooKeeperOptions{Tick: time.Second})
	way, err := servers.NewZooKeeperProxy(s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { way.Close() })
	connect := func(addr string) *zk.Conn {
		conn, _, err := zk.Connect([]string{addr}, 4*time.Second, zk.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	if _, err := connect(s.Addr).Create("/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	locks := oursTTL(t, "zookeeper://"+s.Addr+"?layout=nodes&prefix=client", 0)

	old := handwritten.NewWatchParent(connect(s.Addr), "/"+name)
	lock(t, "the old program", old)
	nobodyElse(t, locks)
	if err := old.Unlock(within(t)); err != nil {
		t.Fatal(err)
	}
	held := hold(t, "the new program", locks)
	got := make(chan error, 1)
	next := handwritten.NewWatchParent(connect(s.Addr), "/"+name)
	go func() { got <- next.Lock(within(t)) }()
	waiting(t, locks)

	// A tutorial's lock behind that one: its predecessor goes between list and watch.
	listed, goOn := make(chan struct{}), make(chan struct{})
	way.OnCommand(func(command string) {
		if command == "getData" {
			close(listed)
			<-goOn
		}
	})
	copied := handwritten.NewTutorial(connect(way.Addr), "/"+name)
	entered := make(chan error, 1)
	go func() { entered <- copied.Lock(within(t)) }()
	<-listed
	select {
	case err := <-got:
		t.Fatalf("the old program holds beside ours: %v", err)
	default:
	}
	if err := next.Unlock(within(t)); err != nil { // it gives up
		t.Fatal(err)
	}
	close(goOn)
	if err := <-entered; err != nil || !held.Valid() {
		t.Errorf("the tutorial's lock: %v, ours holds: %v; it was to enter beside ours", err, held.Valid())
	}
	unlock(t, "the new program", held)
}
