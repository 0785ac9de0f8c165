package etcdlock

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/lab/servers"
)

// wire is a client of a test with what it asks for, counted and lost.
type wire struct {
	*clientv3.Client

	lose   atomic.Bool // the answer of the next request that changes something
	refuse atomic.Bool // no request that changes something is sent

	mu      sync.Mutex
	counts  map[string]int // by method
	read    int            // keys that were answered
	under   int            // transactions under way
	most    int            // of them at once
	hook    func()         // before the next request of that method, once
	on      string
	stuck   string // the next request of that method is not answered, once
	sentBy  int    // how many of that method had been sent when it was given up
	after   bool   // but carried out
	failOn  string
	fails   []error
	streams int           // how many were opened
	behind  chan struct{} // closed: a request that was held back is sent
	sent    chan error    // what became of it
}

// stick has the next request of that method not answered, as by a member that is
// stopped.
func (w *wire) stick(method string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck = method
}

// stickAfter is stick by a member that has carried the request out.
func (w *wire) stickAfter(method string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck, w.after = method, true
}

// sticks waits for the caller's context instead of an answer, if that was arranged.
func (w *wire) sticks(ctx context.Context, method string, carryOut func()) bool {
	w.mu.Lock()
	stuck, after := w.stuck != "" && strings.HasSuffix(method, "/"+w.stuck), w.after
	if stuck {
		w.stuck, w.after = "", false
	}
	w.mu.Unlock()
	if !stuck {
		return false
	}
	if after {
		carryOut()
	}
	<-ctx.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sentBy = w.counts[method[strings.LastIndexByte(method, '/')+1:]]
	return true
}

// holdBack has the next transaction fail and sends it when the returned function is
// called, as a member does that was stopped with the request in its hands. That
// returns what became of it.
func (w *wire) holdBack() (arrive func() error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	behind, sent := make(chan struct{}), make(chan error, 1)
	w.behind, w.sent = behind, sent
	return func() error {
		close(behind)
		return <-sent
	}
}

// dial connects as a program would, without the library's log.
func dial(t testing.TB, config clientv3.Config, addrs ...string) *wire {
	t.Helper()
	w := &wire{counts: map[string]int{}}
	config.Endpoints, config.Logger, config.DialTimeout = addrs, zap.NewNop(), dialTimeout
	config.DialOptions = append(config.DialOptions, grpc.WithChainUnaryInterceptor(w.unary), grpc.WithChainStreamInterceptor(w.stream))
	var err error
	if w.Client, err = clientv3.New(config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Client.Close() })
	return w
}

// before runs f before the next request of that method is sent.
func (w *wire) before(method string, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.on, w.hook = method, f
}

func (w *wire) count(method string) {
	method = method[strings.LastIndexByte(method, '/')+1:]
	w.mu.Lock()
	w.counts[method]++
	var hook func()
	if method == w.on {
		hook, w.hook, w.on = w.hook, nil, ""
	}
	w.mu.Unlock()
	if hook != nil {
		hook()
	}
}

// counted is how many requests of each kind were sent since the last time.
func (w *wire) counted() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.counts
	w.counts = map[string]int{}
	return was
}

func (w *wire) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	w.count(method)
	if w.sticks(ctx, method, func() { _ = invoke(ctx, method, req, reply, cc, opts...) }) {
		return status.FromContextError(ctx.Err()).Err()
	}
	if strings.HasSuffix(method, "/Txn") {
		if w.refuse.Load() {
			return status.Error(codes.Unavailable, "the request was lost")
		}
		w.mu.Lock()
		behind, sent := w.behind, w.sent
		w.behind, w.sent = nil, nil
		w.mu.Unlock()
		if behind != nil {
			go func() {
				<-behind
				sent <- invoke(context.WithoutCancel(ctx), method, req, new(pb.TxnResponse), cc, opts...)
			}()
			return status.Error(codes.Internal, "no answer")
		}
	}
	w.tally(method, 1, nil)
	err := invoke(ctx, method, req, reply, cc, opts...)
	w.tally(method, -1, reply)
	if fail := w.failing(method); err == nil && fail != nil {
		return fail
	}
	if err == nil && strings.HasSuffix(method, "/Txn") && w.lose.CompareAndSwap(true, false) {
		return status.Error(codes.Internal, "the answer was lost")
	}
	return err
}

// tally records how many transactions are under way, and what they read.
func (w *wire) tally(method string, n int, reply any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasSuffix(method, "/Txn") {
		w.under += n
		w.most = max(w.most, w.under)
	}
	switch r := reply.(type) {
	case *pb.TxnResponse:
		w.read += keysIn(r)
	case *pb.RangeResponse:
		w.read += len(r.Kvs)
	}
}

func keysIn(r *pb.TxnResponse) (n int) {
	for _, one := range r.Responses {
		if t := one.GetResponseTxn(); t != nil {
			n += keysIn(t)
		}
		n += len(one.GetResponseRange().GetKvs())
	}
	return n
}

// fail has the next requests of that method answered with those errors.
func (w *wire) fail(method string, errs ...error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failOn, w.fails = method, errs
}

func (w *wire) failing(method string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.fails) == 0 || !strings.HasSuffix(method, "/"+w.failOn) {
		return nil
	}
	err := w.fails[0]
	w.fails = w.fails[1:]
	return err
}

func (w *wire) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, s grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	w.mu.Lock()
	w.streams++
	w.mu.Unlock()
	stream, err := s(ctx, desc, cc, method, opts...)
	return &countedStream{stream, w, method}, err
}

type countedStream struct {
	grpc.ClientStream
	wire   *wire
	method string
}

func (s *countedStream) SendMsg(m any) error {
	s.wire.count(s.method)
	if s.wire.sticks(s.Context(), s.method, nil) {
		return status.FromContextError(s.Context().Err()).Err()
	}
	return s.ClientStream.SendMsg(m)
}

// short is the TTL of tests that wait for a lease to end: one of two seconds.
const short = 1600 * time.Millisecond

// Engines of tests ask once where nothing is meant to go wrong: a request that is sent again
// because the machine was late counts twice, and what the second one finds may be the work of
// the first.
var (
	patient = bounds{least: 20 * time.Second, most: 20 * time.Second, hedge: 20 * time.Second, closing: 20 * time.Second}
	hedging = bounds{least: patient.least, most: patient.most, hedge: usual.hedge, closing: patient.closing} // where what is hedged fails
)

// start is an engine with a session that lasts: no machine is away for so long.
func start(t testing.TB, client *clientv3.Client, o *Options) *Engine {
	t.Helper()
	return startWith(t, client, o, patient)
}

// startUsual is start of an engine that is as impatient as that of a program.
func startUsual(t testing.TB, client *clientv3.Client, o *Options) *Engine {
	t.Helper()
	return startWith(t, client, o, usual)
}

func startWith(t testing.TB, client *clientv3.Client, o *Options, b bounds) *Engine {
	t.Helper()
	e, err := newEngine(t.Context(), client, o, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	c, err := e.use(time.Minute) // and what it is used for is not begun by what is counted
	if err == nil {
		_, err = e.begin(t.Context(), c.Session)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestConformance(t *testing.T) {
	t.Parallel() // it mostly waits for leases to end
	server := servers.Etcd(t, nil)
	proxy := servers.ProxyTo(t, server.Addr)
	admin := dial(t, clientv3.Config{}, server.Addr)
	var wires sync.Map // by engine
	k := keys{"leasehold/"}
	spoil := func(key, value string) func(testing.TB, string) {
		return func(t testing.TB, name string) {
			if _, err := admin.Put(t.Context(), k.line(name)+key, value); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { admin.Delete(context.WithoutCancel(t.Context()), k.line(name)+key) })
		}
	}
	enginetest.Run(t, enginetest.Harness{
		Name: "etcdlock", SideBySide: true,
		New: func(t testing.TB) engine.Engine {
			w := dial(t, clientv3.Config{}, proxy.Addr)
			e, err := newEngine(t.Context(), w.Client, nil, hedging)
			if err != nil {
				t.Fatal(err)
			}
			e.owned = true
			wires.Store(e, w)
			return e
		},
		Kill: func(t testing.TB, e engine.Engine) { wireOf(t, &wires, e).Client.Close() },
		Restart: func(t testing.TB) {
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
		},
		LoseReply: func(t testing.TB, e engine.Engine) func() bool {
			lose := &wireOf(t, &wires, e).lose
			lose.Store(true)
			return func() bool { return !lose.Load() }
		},
		CountKeys: func(t testing.TB) int {
			count := 0
			for _, kind := range []string{"line/", "note/"} { // void/ is one for a client
				r, err := admin.Get(t.Context(), "leasehold/"+kind, clientv3.WithPrefix(), clientv3.WithCountOnly())
				if err != nil {
					t.Fatal(err)
				}
				count += int(r.Count)
			}
			return count
		},
		CountRequests: func(testing.TB) (sum int) {
			wires.Range(func(_, one any) bool {
				w := one.(*wire)
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, n := range w.counts {
					sum += n
				}
				return true
			})
			return sum
		},
		RefuseConnections: func(testing.TB) func() {
			proxy.Refuse(true)
			return func() { proxy.Refuse(false) }
		},
		Spoil: map[string]func(testing.TB, string){
			"a key that is no claim":                 spoil("00junk", "junk"),
			"a binary key":                           spoil("\xff\xfe\x00\x01", "\x00\xff"),
			"a value of a megabyte":                  spoil("7fffffff/x", strings.Repeat("x", 1<<20)),
			"a claim without a lease, of nobody":     spoil("7fffffff/7fffffff/nobody/0", ""),
			"a reader's claim with a binary value":   spoil("7fffffff/00000001/nobody/0", strings.Repeat("\xff", 100)),
			"a claim with another limit":             spoil("00000003/00000002/nobody/0", "x"),
			"a claim of more permits than its limit": spoil("00000001/00000002/nobody/0", "x"),
			"a claim of no permits":                  spoil("7fffffff/00000000/nobody/0", "x"),
			"a claim with a slot that is no number":  spoil("7fffffff/7fffffff/nobody/-1", "x"),
		},
		Committed: "../../../docs/guarantees",
	})
}

func wireOf(t testing.TB, wires *sync.Map, e engine.Engine) *wire {
	w, ok := wires.Load(e)
	if !ok {
		t.Fatal("that engine is not this harness's")
	}
	return w.(*wire)
}
