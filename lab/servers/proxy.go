package servers

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
)

// Proxy stands between clients and one server, copies bytes, and does to them
// what networks do. Faults may be set and healed at any time, from any
// goroutine.
type Proxy struct {
	Addr string // where clients connect: 127.0.0.1:port

	target   string
	protocol func() counter
	listener net.Listener
	running  sync.WaitGroup

	mu         sync.Mutex
	changed    chan struct{} // closed and replaced whenever a setting changes
	pairs      map[*pair]struct{}
	counts     map[string]int
	sawCommand func(name string)
	delay      time.Duration
	hold       bool
	refuse     bool
	refused    int // connections
	lost       int // answers that were cut off
	dropReply  bool
	cutRequest int // bytes to pass before the connection is cut; -1: no limit
	cutReply   int
	loseReply  map[string]bool // commands whose next answer is to be lost
	holdReply  map[string]bool // commands whose next answer is to wait
	closed     bool
}

// pair is one client's connection and the one made for it.
type pair struct {
	client, server net.Conn
	lost           bool // a reply was or will be swallowed: the stream is beyond repair
	lose           bool // the next bytes from the server are not to arrive
	held           bool // bytes from the server wait
	once           sync.Once
}

// counter finds the commands in what one client sends.
type counter interface {
	feed(b []byte, found func(name string))
}

// NewProxy starts a proxy to a Redis at "host:port" or at the path of a socket.
// (Whatever else listens there may be counted wrongly, and is served as well.)
func NewProxy(target string) (*Proxy, error) {
	return newProxy(target, func() counter { return &commandCounter{} })
}

// NewZooKeeperProxy starts a proxy to a ZooKeeper. Its commands are ZooKeeper's
// operations: "create", "getData", "ping".
func NewZooKeeperProxy(target string) (*Proxy, error) {
	return newProxy(target, func() counter { return &packetCounter{} })
}

// NewPostgresProxy starts a proxy to a PostgreSQL. Its commands are statements:
// "execute", and the first word of a simple query.
func NewPostgresProxy(target string) (*Proxy, error) {
	return newProxy(target, func() counter { return &statementCounter{} })
}

func newProxy(target string, protocol func() counter) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Addr: l.Addr().String(), target: target, protocol: protocol, listener: l, changed: make(chan struct{}),
		pairs: map[*pair]struct{}{}, counts: map[string]int{}, cutRequest: -1, cutReply: -1,
	}
	// Whatever profiler labels the caller has, for telling whose goroutines are
	// whose, a proxy is its own.
	started := make(chan struct{})
	go func() {
		defer close(started)
		pprof.SetGoroutineLabels(context.Background())
		p.running.Go(p.accept)
	}()
	<-started
	return p, nil
}

// ProxyTo starts a proxy for a test.
func ProxyTo(t TB, target string) *Proxy {
	t.Helper()
	p, err := NewProxy(target)
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// Commands is how many commands clients have sent, by name: "EVALSHA",
// "CLIENT SETINFO". A command counts when its last byte has come in.
func (p *Proxy) Commands() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Forget sets the counts to zero.
func (p *Proxy) Forget() { p.set(func() { clear(p.counts) }) }

// OnCommand calls f with every command's name before the command is passed on,
// so that a test can strike at an exact moment. Nil ends it.
func (p *Proxy) OnCommand(f func(name string)) { p.set(func() { p.sawCommand = f }) }

// Delay lets every byte arrive that much later, in each direction.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// BlackHole lets nothing pass until it is healed; then what was sent arrives,
// as it does when a network's packets are sent again.
func (p *Proxy) BlackHole(on bool) { p.set(func() { p.hold = on }) }

// Refuse cuts new connections at once. Those that stand are not touched.
func (p *Proxy) Refuse(on bool) { p.set(func() { p.refuse = on }) }

// Refused is how many connections were.
func (p *Proxy) Refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refused
}

// Lost is how many answers CutReply and LoseReply have cut off.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// DropReplies lets requests pass and swallows the answers. When it is healed,
// connections that lost an answer are reset, and so are those whose answer has
// not come yet: what is asked meanwhile is never answered.
func (p *Proxy) DropReplies(on bool) {
	p.set(func() { p.dropReply = on })
	if on {
		return
	}
	for _, x := range p.all() {
		p.mu.Lock()
		lost := x.lost
		p.mu.Unlock()
		if lost {
			p.cut(x)
		}
	}
}

// Reset cuts every connection with a TCP reset.
func (p *Proxy) Reset() {
	for _, x := range p.all() {
		p.cut(x)
	}
}

// CutRequest passes n more bytes of requests and then resets the connection
// that was in the middle: once.
func (p *Proxy) CutRequest(n int) { p.set(func() { p.cutRequest = n }) }

// CutReply passes n more bytes of replies and then resets the connection: once.
func (p *Proxy) CutReply(n int) { p.set(func() { p.cutReply = n }) }

// LoseReply lets the next of these commands reach the server, and cuts its
// connection when the answer comes: once, for whichever command is first.
func (p *Proxy) LoseReply(commands ...string) {
	p.set(func() {
		p.loseReply = map[string]bool{}
		for _, c := range commands {
			p.loseReply[c] = true
		}
	})
}

// HoldReply lets the next of these commands reach the server, and nothing that the
// server says on that connection arrive until ReleaseReply: once, for whichever command
// is first. Other connections go on.
func (p *Proxy) HoldReply(commands ...string) {
	p.set(func() {
		p.holdReply = map[string]bool{}
		for _, c := range commands {
			p.holdReply[c] = true
		}
	})
}

// ReleaseReply lets arrive what HoldReply holds.
func (p *Proxy) ReleaseReply() {
	p.set(func() {
		p.holdReply = nil
		for x := range p.pairs {
			x.held = false
		}
	})
}

// Retarget sends new connections elsewhere.
func (p *Proxy) Retarget(target string) { p.set(func() { p.target = target }) }

// Close resets every connection and waits for the proxy's goroutines.
func (p *Proxy) Close() error {
	p.set(func() { p.closed = true })
	err := p.listener.Close()
	p.Reset()
	p.running.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) all() []*pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*pair
	for x := range p.pairs {
		list = append(list, x)
	}
	return list
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(c) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	refuse, target := p.refuse, p.target
	if refuse {
		p.refused++
	}
	p.mu.Unlock()
	network := "tcp"
	if strings.HasPrefix(target, "/") {
		network = "unix"
	}
	var server net.Conn
	err := errors.New("refused")
	if !refuse {
		server, err = net.DialTimeout(network, target, 5*time.Second)
	}
	if err != nil {
		abort(client)
		return
	}
	x := &pair{client: client, server: server}
	p.mu.Lock()
	p.pairs[x] = struct{}{}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		p.cut(x)
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(x, server, client, true) })
	both.Go(func() { p.copy(x, client, server, false) })
	both.Wait()
}

func (p *Proxy) cut(x *pair) {
	x.once.Do(func() {
		abort(x.client)
		x.server.Close()
		p.set(func() { delete(p.pairs, x) }) // wakes what waits in admit
	})
}

// abort closes with a reset rather than an orderly end.
func abort(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

type chunk struct {
	data []byte
	at   time.Time
}

// copy moves one direction. Reading and writing are apart, so that a delay
// adds to latency without stopping what follows.
func (p *Proxy) copy(x *pair, to, from net.Conn, requests bool) {
	queue := make(chan chunk, 256)
	counter := p.protocol()
	p.running.Go(func() {
		defer close(queue)
		for {
			b := make([]byte, 16<<10)
			n, err := from.Read(b)
			if n > 0 {
				if requests {
					counter.feed(b[:n], func(name string) { p.count(x, name) })
				}
				queue <- chunk{b[:n], time.Now()}
			}
			if err != nil {
				if err != io.EOF {
					p.cut(x)
				}
				return
			}
		}
	})
	defer func() {
		p.cut(x) // an end in one direction ends both: no client here half-closes
		for range queue {
			// let the reader finish
		}
	}()
	for c := range queue {
		pass, alive := p.admit(x, c, requests)
		if len(pass) > 0 {
			if _, err := to.Write(pass); err != nil {
				return
			}
		}
		if !alive {
			return
		}
	}
}

func (p *Proxy) count(x *pair, name string) {
	p.mu.Lock()
	p.counts[name]++
	if p.loseReply[name] {
		p.loseReply, x.lose = nil, true
	}
	if p.holdReply[name] {
		p.holdReply, x.held = nil, true
	}
	saw := p.sawCommand
	p.mu.Unlock()
	if saw != nil {
		saw(name)
	}
}

// admit waits as the settings say and returns what may pass now, and whether
// the connection lives on.
func (p *Proxy) admit(x *pair, c chunk, requests bool) ([]byte, bool) {
	for {
		p.mu.Lock()
		wait := time.Until(c.at.Add(p.delay))
		changed := p.changed
		_, open := p.pairs[x]
		switch {
		case !open || p.closed:
			p.mu.Unlock()
			return nil, false
		case p.hold, x.held && !requests:
			wait = time.Hour
		case p.delay == 0 || wait <= 0:
			defer p.mu.Unlock()
			limit := &p.cutReply
			if requests {
				limit = &p.cutRequest
			} else if x.lose {
				p.lost++
				return nil, false
			}
			if p.dropReply {
				x.lost = true
				if !requests {
					return nil, true
				}
			}
			if *limit < 0 {
				return c.data, true
			}
			if len(c.data) <= *limit {
				*limit -= len(c.data)
				return c.data, true
			}
			n := *limit
			*limit = -1
			if !requests {
				p.lost++
			}
			return c.data[:n], false
		}
		p.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		}
		timer.Stop()
	}
}
