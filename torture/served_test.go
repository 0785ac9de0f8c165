package torture_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/rpc"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/enginetest/broken"
	"leasehold/torture"
	"leasehold/torture/history"
)

// served is a world of package broken that the processes of a trial share: the test serves
// it on loopback, and every client of a trial is one of its engines. Its claims end by their
// TTL, on the clock of the machine: that is what it declares, and its memory ends with the
// test.
type served struct {
	*broken.World
	t   testing.TB
	ctx context.Context // ends with the test

	began time.Time // when the world's clock was zero

	serving sync.WaitGroup

	mu      sync.Mutex
	clients map[string]*servedClient
	names   []string // that were joined, in that order
}

type servedClient struct {
	engine.Engine
	watched sync.Once         // Watch runs: nobody else may learn anything by it
	changes chan engine.Claim // that Watch has reported; what does not fit is lost
}

// scheme is that of the URL of a served world.
const scheme = "served://"

// serve makes a world with a fault, and returns the URL of it.
func serve(t *testing.T, f broken.Fault) (*served, string) {
	ctx, end := context.WithCancel(context.Background())
	w := &served{World: broken.New(f), t: t, ctx: ctx, began: time.Now(), clients: map[string]*servedClient{}}
	server := rpc.NewServer()
	if err := server.RegisterName("World", &desk{w}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { c.Close() })
			w.serving.Go(func() { defer stop(); server.ServeConn(c) })
		}
	})
	w.serving.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
			w.tick()
		}
	})
	t.Cleanup(func() {
		end()
		l.Close()
		w.mu.Lock()
		for _, c := range w.clients {
			_ = c.Close()
		}
		w.mu.Unlock()
		w.World.Close()
		w.serving.Wait()
	})
	return w, scheme + l.Addr().String()
}

// tick sets the world's clock to the machine's. A call that went by an earlier time would
// grant less than it says.
func (w *served) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.Sleep(time.Since(w.began) - w.Now())
}

// of is the engine of a client. A killed client's engine stays open: its claims have their
// TTL.
func (w *served) of(client string) *servedClient {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clients[client]
	if c == nil {
		c = &servedClient{Engine: w.Engine(w.t), changes: make(chan engine.Claim, 1000)}
		w.clients[client] = c
	}
	return c
}

func (c *servedClient) watch(ctx context.Context) {
	_ = c.Watch(ctx, func(x engine.Claim) {
		select {
		case c.changes <- x:
		default:
		}
	})
}

// Ask is what a client sends, and Reply what it is answered.
type Ask struct {
	Client   string
	Left     time.Duration // until the call's deadline; 0: none
	Request  engine.Request
	Renewals []engine.Renewal
	Claims   []engine.Claim
	Name     string // or prefix
	Ticket   uint64
	Now      bool
}

type Reply struct {
	Claims []engine.Claim
	Queues []engine.Queue
	Error  string
	Kind   int // of the error: its place in kinds, from 1; 0: another one
	Panic  string
}

// kinds are the errors that mean something to a client.
var kinds = []error{engine.ErrNoClaim, engine.ErrLimit, engine.ErrRefused, errors.ErrUnsupported}

// desk is what clients call.
type desk struct{ w *served }

func (d *desk) do(a *Ask, r *Reply, call func(context.Context, engine.Engine) error) error {
	ctx, cancel := context.WithTimeout(d.w.ctx, cmp.Or(a.Left, time.Hour))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			r.Panic = fmt.Sprint(p)
		}
	}()
	d.w.tick()
	if err := call(ctx, d.w.of(a.Client)); err != nil {
		r.Error = err.Error()
		for i, kind := range kinds {
			if r.Kind == 0 && errors.Is(err, kind) {
				r.Kind = i + 1
			}
		}
	}
	return nil
}

func (d *desk) Join(a *Ask, r *Reply) error {
	d.w.mu.Lock()
	d.w.names = append(d.w.names, a.Request.Name)
	d.w.mu.Unlock()
	return d.do(a, r, func(ctx context.Context, e engine.Engine) error {
		c, err := e.Join(ctx, a.Request)
		r.Claims = []engine.Claim{c}
		return err
	})
}

func (d *desk) Renew(a *Ask, r *Reply) error {
	return d.do(a, r, func(ctx context.Context, e engine.Engine) (err error) {
		r.Claims, err = e.Renew(ctx, a.Renewals)
		return err
	})
}

func (d *desk) Leave(a *Ask, r *Reply) error {
	return d.do(a, r, func(ctx context.Context, e engine.Engine) (err error) {
		r.Claims, err = e.Leave(ctx, a.Claims)
		return err
	})
}

func (d *desk) Revoke(a *Ask, r *Reply) error {
	return d.do(a, r, func(ctx context.Context, e engine.Engine) error { return e.Revoke(ctx, a.Name, a.Ticket, a.Now) })
}

func (d *desk) Queue(a *Ask, r *Reply) error {
	return d.do(a, r, func(ctx context.Context, e engine.Engine) error {
		q, err := e.Queue(ctx, a.Name)
		r.Queues = []engine.Queue{q}
		return err
	})
}

func (d *desk) Queues(a *Ask, r *Reply) error {
	return d.do(a, r, func(ctx context.Context, e engine.Engine) error {
		for q, err := range e.Queues(ctx, a.Name) {
			if err != nil {
				return err
			}
			r.Queues = append(r.Queues, q)
		}
		return nil
	})
}

// Changes returns what Watch has reported, or nothing after a while.
func (d *desk) Changes(a *Ask, r *Reply) error {
	c := d.w.of(a.Client)
	c.watched.Do(func() { d.w.serving.Go(func() { c.watch(d.w.ctx) }) })
	late := time.NewTimer(a.Left)
	defer late.Stop()
	for {
		select {
		case x := <-c.changes:
			r.Claims = append(r.Claims, x)
			if len(c.changes) > 0 {
				continue
			}
		case <-late.C:
		}
		return nil
	}
}

// dialled is a client of a served world, in another process.
type dialled struct {
	addr, client string

	mu   sync.Mutex
	conn *rpc.Client
}

// dial opens the engine of a URL of serve. Its query, if any, is one of clients.
func dial(url string) (engine.Engine, error) {
	addr, way, _ := strings.Cut(strings.TrimPrefix(url, scheme), "?")
	e := &dialled{addr: addr, client: engine.NewID().Secret()}
	if way == "" {
		return e, nil
	}
	client := clients[way]
	if client == nil {
		return nil, fmt.Errorf("there is no client %q", way)
	}
	return client(e), nil
}

func (e *dialled) Guarantees() engine.Guarantees {
	return engine.Guarantees{
		Order: engine.FIFO, Modes: engine.Exclusive | engine.Shared | engine.Permits, Fencing: engine.FencingMemory,
		Failover: engine.FailoverNone, Scope: engine.ScopeCluster, CrashRelease: engine.CrashTTL, Detach: true, SeesWaiters: true,
	}
}

// call sends a call, and waits for the answer until ctx ends.
func (e *dialled) call(ctx context.Context, method string, a Ask) (*Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	a.Client = e.client
	if at, ok := ctx.Deadline(); ok && a.Left == 0 {
		a.Left = time.Until(at)
	}
	conn, err := e.connected(ctx)
	if err != nil {
		return nil, err
	}
	r := &Reply{}
	done := conn.Go("World."+method, &a, r, make(chan *rpc.Call, 1))
	select {
	case <-done.Done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case done.Error != nil:
		e.drop(conn)
		return nil, done.Error
	case r.Panic != "":
		panic(r.Panic) // a served world stands for the engine in this process
	case r.Kind > 0:
		return r, fmt.Errorf("%w: %s", kinds[r.Kind-1], r.Error)
	case r.Error != "":
		return r, errors.New(r.Error)
	}
	return r, nil
}

func (e *dialled) connected(ctx context.Context) (*rpc.Client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn == nil {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.addr)
		if err != nil {
			return nil, err
		}
		e.conn = rpc.NewClient(c)
	}
	return e.conn, nil
}

func (e *dialled) drop(conn *rpc.Client) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn == conn {
		e.conn = nil
	}
	_ = conn.Close()
}

func (e *dialled) Join(ctx context.Context, q engine.Request) (engine.Claim, error) {
	r, err := e.call(ctx, "Join", Ask{Request: q})
	if err != nil {
		return engine.Claim{}, err
	}
	return r.Claims[0], nil
}

func (e *dialled) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	r, err := e.call(ctx, "Renew", Ask{Renewals: rs})
	if r == nil {
		return nil, err
	}
	return r.Claims, err
}

func (e *dialled) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	r, err := e.call(ctx, "Leave", Ask{Claims: cs})
	if r == nil {
		return nil, err
	}
	return r.Claims, err
}

func (e *dialled) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	_, err := e.call(ctx, "Revoke", Ask{Name: name, Ticket: ticket, Now: now})
	return err
}

func (e *dialled) Queue(ctx context.Context, name string) (engine.Queue, error) {
	r, err := e.call(ctx, "Queue", Ask{Name: name})
	if err != nil {
		return engine.Queue{}, err
	}
	return r.Queues[0], nil
}

func (e *dialled) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		r, err := e.call(ctx, "Queues", Ask{Name: prefix})
		if r != nil {
			for _, q := range r.Queues {
				if !yield(q, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(engine.Queue{}, err)
		}
	}
}

// Watch asks again and again what has changed. A connection that breaks ends it.
func (e *dialled) Watch(ctx context.Context, changed func(engine.Claim)) error {
	for pause, begun := time.Nanosecond, false; ; pause = time.Second {
		r, err := e.call(ctx, "Changes", Ask{Left: pause})
		if err != nil {
			return err
		}
		if !begun {
			begun = true
			changed(engine.Claim{})
		}
		for _, c := range r.Claims {
			changed(c)
		}
	}
}

func (e *dialled) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn == nil {
		return nil
	}
	conn := e.conn
	e.conn = nil
	return conn.Close()
}

// strikes is a nemesis of a served world. begin does the fault; heal, unless it is nil, ends
// it.
type strikes struct {
	name   string
	breaks []string
	begin  func(*torture.Strike) (heal func())
}

func (n strikes) Name() string { return n.name }

func (n strikes) Strike(ctx context.Context, s *torture.Strike) error {
	s.Breaks(n.breaks...)
	s.Begin("", "the world")
	heal := n.begin(s)
	s.Bit("it was done")
	if heal != nil {
		s.Last(ctx)
		heal()
	}
	return nil
}

// nemesis is one by its name.
func (w *served) nemesis(name string) torture.Nemesis {
	switch name {
	case "kill":
		return torture.Kill()
	case "stop":
		return torture.Stop()
	case "wire":
		return torture.Wire()
	case "restart":
		return strikes{name, []string{history.Memory}, func(*torture.Strike) func() { w.Forget(w.t); return nil }}
	case "failover": // to a replica that has nothing
		return strikes{name, []string{history.Failover}, func(*torture.Strike) func() { w.Forget(w.t); return nil }}
	case "good failover": // to a replica that has all
		return strikes{name, []string{history.Failover}, func(*torture.Strike) func() { return nil }}
	case "full":
		return strikes{name, nil, func(*torture.Strike) func() { return w.RefuseConnections(w.t) }}
	case "junk": // it stays under that name
		return strikes{name, nil, func(s *torture.Strike) func() { w.Spoil(w.t, w.raw(s)); return nil }}
	case "partial":
		return strikes{name, nil, func(s *torture.Strike) func() { w.failPartial(w.raw(s)); return nil }}
	}
	return nil
}

// raw is a name on which clients call the engine itself.
func (w *served) raw(s *torture.Strike) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := slices.DeleteFunc(slices.Clone(w.names), func(n string) bool { return !strings.Contains(n, "-raw-") })
	if len(names) == 0 {
		return "nothing"
	}
	return names[s.Rand.IntN(len(names))]
}

// failPartial has that name fail in the next batch of every client.
func (w *served) failPartial(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clients {
		w.FailPartial(w.t, c.Engine, name)
	}
}
