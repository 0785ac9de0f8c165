package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// short is the TTL of a client whose session's end is waited for: half of a session. A client
// that is away for over a second keeps its connection.
const short = 2 * time.Second

// lasting is the session of all others: no machine is away for so long.
const lasting = 20 * time.Second

// shared is the server of tests that run one after another.
var shared = servers.Shared[*servers.ZooKeeperServer]{
	Start: func() (*servers.ZooKeeperServer, error) {
		return servers.StartZooKeeper(&servers.ZooKeeperOptions{Config: granting, Flags: []string{
			// Everything may be removed, whoever made it: the password of super is "secret".
			"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:" + secretOfSuper,
			// The server removes no container, as none that is as young as a test.
			"-Dznode.container.checkIntervalMs=3600000",
		}})
	},
}

// secretOfSuper is "super:secret" as ZooKeeper keeps it.
const secretOfSuper = "lK75jTNcA+U9vtVEw5vB51mj/w4="

// zooKeeper is an empty server that grants lasting sessions. Other tests have used it, and
// will: it is for tests that are not parallel, and do not restart it.
func zooKeeper(t testing.TB) *servers.ZooKeeperServer {
	t.Helper()
	servers.NeedZooKeeper(t)
	s := shared.Server(t)
	conn, end := newPeer(t, s)
	defer end()
	if err := conn.AddAuth("digest", []byte("super:secret")); err != nil {
		t.Fatal(err)
	}
	empty(t, conn, "/")
	return s
}

// beside is that server for parallel tests, which run when all others have ended. Each has names
// that no other test has.
func beside(t testing.TB) *servers.ZooKeeperServer {
	t.Helper()
	servers.NeedZooKeeper(t)
	return shared.Server(t)
}

// empty removes all that is below a node and is not the server's.
func empty(t testing.TB, conn *zk.Conn, path string) {
	t.Helper()
	children, _, err := conn.Children(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	for _, child := range children {
		below := strings.TrimSuffix(path, "/") + "/" + child
		if below == "/zookeeper" {
			continue
		}
		empty(t, conn, below)
		if err := conn.Delete(below, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Fatal(err)
		}
	}
}

// ownZooKeeper is zooKeeper for one test alone.
func ownZooKeeper(t testing.TB) *servers.ZooKeeperServer {
	t.Helper()
	return servers.ZooKeeper(t, &servers.ZooKeeperOptions{Config: granting})
}

// sweeping is ownZooKeeper whose containers go within a second of the last node in them, and
// not within a minute or two.
func sweeping(t testing.TB) *servers.ZooKeeperServer {
	t.Helper()
	return servers.ZooKeeper(t, &servers.ZooKeeperOptions{Config: granting, Flags: []string{"-Dznode.container.checkIntervalMs=200"}})
}

var granting = []string{fmt.Sprint("maxSessionTimeout=", lasting.Milliseconds())}

// wire is what stands between one client and the servers.
type wire struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)

	mu       sync.Mutex
	dead     bool
	conns    map[*tapped]struct{}
	lose     bool           // the answer to the next request, and its connection
	loseNext bool           // the same, of the next multi
	sent     map[int32]int  // requests by operation, without pings
	most     int            // bytes of the largest packet
	saw      func(op int32) // called before a request goes out

	sawPacket func(op int32, packet []byte) // the same
}

func newWire() *wire {
	return &wire{dial: (&net.Dialer{}).DialContext, conns: map[*tapped]struct{}{}, sent: map[int32]int{}}
}

func (w *wire) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	dead := w.dead
	w.mu.Unlock()
	if dead {
		return nil, errors.New("this client is dead")
	}
	c, err := w.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t := &tapped{Conn: c, wire: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		c.Close()
		return nil, errors.New("this client is dead")
	}
	w.conns[t] = struct{}{}
	return t, nil
}

// kill ends the client as the death of its process would.
func (w *wire) kill() { w.sever(true) }

// cut breaks its connection, once.
func (w *wire) cut() { w.sever(false) }

// revive lets it connect again.
func (w *wire) revive() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = false
}

func (w *wire) sever(dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = w.dead || dead
	for c := range w.conns {
		c.Conn.Close()
		delete(w.conns, c)
	}
}

// loseReply lets the next request reach the server, and no answer to it come back. What
// it returns reports whether one did.
func (w *wire) loseReply() (lost func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lose = true
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.lose
	}
}

// loseMulti is loseReply of the next multi.
func (w *wire) loseMulti() (lost func() bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.loseNext = true
	return func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !w.loseNext
	}
}

// before has f called before each request from now on.
func (w *wire) before(f func(op int32)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saw = f
}

// requests is how many were sent, by operation; what was counted is forgotten.
func (w *wire) requests() map[int32]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = map[int32]int{}
	return sent
}

// Operations of the protocol.
const (
	opCreate   = 1
	opDelete   = 2
	opExists   = 3
	opGetData  = 4
	opSetData  = 5
	opList     = 12
	opMulti    = 14
	opCreateC  = 19
	opPing     = 11
	opSession  = 0 // what a connection begins with, which has no operation
	headerSize = 12
)

// tapped is a connection. The library writes one packet a call, and reads its
// length and its content apart.
type tapped struct {
	net.Conn
	wire   *wire
	greets bool  // the first packet is no request
	lost   int32 // the number of the request whose answer is to be lost

	head []byte // length and number of the answer that is being read
	rest int    // bytes of it behind them
}

func (t *tapped) Write(b []byte) (int, error) {
	op := int32(opSession)
	if t.greets && len(b) >= headerSize {
		op = int32(binary.BigEndian.Uint32(b[8:]))
	}
	t.greets = true
	if op != opSession && op != opPing {
		t.wire.mu.Lock()
		t.wire.sent[op]++
		t.wire.most = max(t.wire.most, len(b))
		saw, sawPacket := t.wire.saw, t.wire.sawPacket
		lose := t.wire.lose || t.wire.loseNext && op == opMulti
		if lose {
			t.lost = int32(binary.BigEndian.Uint32(b[4:]))
			t.wire.lose = false
			t.wire.loseNext = t.wire.loseNext && op != opMulti
		}
		t.wire.mu.Unlock()
		if saw != nil {
			saw(op)
		}
		if sawPacket != nil {
			sawPacket(op, b)
		}
	}
	return t.Conn.Write(b)
}

// Read breaks the connection at the answer that is to be lost, and at no other: an earlier
// one may be read while that request is on its way.
func (t *tapped) Read(b []byte) (int, error) {
	n, err := t.Conn.Read(b)
	for read := b[:n]; len(read) > 0; {
		if t.rest > 0 {
			passed := min(t.rest, len(read))
			t.rest -= passed
			read = read[passed:]
			continue
		}
		more := min(8-len(t.head), len(read))
		t.head = append(t.head, read[:more]...)
		read = read[more:]
		if len(t.head) < 8 {
			break
		}
		length, number := binary.BigEndian.Uint32(t.head), int32(binary.BigEndian.Uint32(t.head[4:]))
		t.head, t.rest = t.head[:0], int(length)-4
		t.wire.mu.Lock()
		lost := t.lost != 0 && t.lost == number
		t.wire.mu.Unlock()
		if lost {
			t.Conn.Close()
			return 0, errors.New("the answer was lost")
		}
	}
	return n, err
}

// client is an engine, its first session, by which all its claims live, and its wire.
type client struct {
	*claimant
	wire *wire
}

var within, eventually, receive = testutil.Within, testutil.Until, testutil.Expect

func open(t testing.TB, o Options) client {
	t.Helper()
	w := newWire()
	if o.Dial != nil {
		w.dial = o.Dial
	}
	o.Dial = w.Dial
	e, err := opened(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return client{e.classes.Opened()[0].Session, w}
}

// opened is New, up to three times if no server answers in time: on a busy machine it may be
// away for longer than opening lasts.
func opened(ctx context.Context, o Options) (e *Engine, err error) {
	for range 3 {
		if e, err = New(ctx, o); err == nil || !strings.Contains(err.Error(), "no answer within") {
			break
		}
	}
	return e, err
}

// givesUp is a Join whose caller gives up as soon as that is so; cancel ends ctx.
func (c client) givesUp(t testing.TB, ctx context.Context, cancel func(), r engine.Request, as string, so func() bool) (engine.Claim, error) {
	t.Helper()
	var got engine.Claim
	var err error
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		got, err = c.Join(ctx, c.lasts(r))
	}()
	eventually(t, as, so)
	cancel()
	<-returned
	return got, err
}

func on(s ...*servers.ZooKeeperServer) Options {
	var o Options
	for _, one := range s {
		o.Servers = append(o.Servers, one.Addr)
	}
	return o
}

// dying is on for a client whose session's end is waited for.
func dying(s *servers.ZooKeeperServer) Options {
	o := on(s)
	o.ttl = short
	return o
}

func exclusive(name string) engine.Request { return want(name, engine.Max, engine.Max) }
func reader(name string) engine.Request    { return want(name, 1, engine.Max) }

func want(name string, permits, limit int32) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Permits: permits, Limit: limit, WaitTTL: engine.MinTTL}
}

// lasts is a request for the TTL of the client's first session.
func (c client) lasts(r engine.Request) engine.Request {
	r.TTL = c.usual
	return r
}

func (c client) join(t testing.TB, r engine.Request) engine.Claim {
	t.Helper()
	return testutil.Join(t, c, c.lasts(r))
}

func (c client) hold(t testing.TB, r engine.Request) engine.Claim {
	t.Helper()
	return testutil.Joins(t, c, c.lasts(r), engine.Held)
}

func (c client) wait(t testing.TB, r engine.Request) engine.Claim {
	t.Helper()
	return testutil.Joins(t, c, c.lasts(r), engine.Waiting)
}

func (c client) renew(t testing.TB, cl engine.Claim) engine.Claim {
	t.Helper()
	return testutil.Renew(t, c, cl, c.usual)
}

func (c client) leave1(t testing.TB, cl engine.Claim) engine.Claim {
	t.Helper()
	got, err := c.Leave(within(t), []engine.Claim{cl})
	if err != nil || len(got) != 1 {
		t.Fatalf("Leave: %v, %v", got, err)
	}
	return got[0]
}

// notifications listens until the test ends.
func (c client) notifications(t testing.TB) <-chan engine.Claim {
	t.Helper()
	return testutil.Watch(t, c)
}

func heldNotification(id engine.ID) func(engine.Claim) bool {
	return func(c engine.Claim) bool { return c.ID == id && c.State == engine.Held }
}

// peer is a plain client, for what other programs do.
func peer(t testing.TB, s *servers.ZooKeeperServer) *zk.Conn {
	t.Helper()
	conn, end := newPeer(t, s)
	t.Cleanup(end)
	return conn
}

// newPeer is peer until end is called.
func newPeer(t testing.TB, s *servers.ZooKeeperServer) (conn *zk.Conn, end func()) {
	t.Helper()
	conn, events, err := zk.Connect([]string{s.Addr}, lasting, zk.WithLogger(silent{}))
	if err != nil {
		t.Fatal(err)
	}
	for ev := range events {
		if ev.State == zk.StateHasSession {
			break
		}
	}
	return conn, func() {
		conn.Close()
		for range events {
		}
	}
}

// silent is the logger of clients whose trouble is the test.
type silent struct{}

func (silent) Printf(string, ...any) {}
