// Package wire is faults on the wire: a proxy between clients and one server that does to
// their bytes what networks do. Tests, the laboratory and the torture of locks use it.
//
// It knows no protocol. A user that does gives New a function that reads the requests.
package wire

import (
	"context"
	"errors"
	"net"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
)

// Proxy stands between clients and one server, and copies bytes. Faults may be set and
// healed at any time, from any goroutine.
type Proxy struct {
	Addr string // where clients connect: 127.0.0.1:port

	requests func(*Conn) func([]byte)
	listener net.Listener
	running  sync.WaitGroup

	mu        sync.Mutex
	target    string
	changed   chan struct{} // closed and replaced whenever a setting changes
	conns     map[*Conn]struct{}
	delay     time.Duration
	stop      [2]bool // by direction: nothing passes
	refuse    bool
	dropReply bool
	cut       [2]int // by direction: bytes to pass before the connection is cut; -1: no limit
	loseNext  int    // answers that are to be lost
	holdNext  int    // answers that are to wait
	closed    bool
	effects   Effects
}

// direction is where bytes go.
type direction int

const (
	request direction = iota
	reply
)

// Effects is what the faults of a Proxy have done, since it began.
type Effects struct {
	Refused int // connections that Refuse cut
	Cut     int // connections that Reset cut, or the end of DropReplies
	Lost    int // answers that were cut off, or dropped
	Late    int // pieces of requests and answers that waited
}

// Conn is one client's connection and the one made for it.
type Conn struct {
	p              *Proxy
	client, server net.Conn
	once           sync.Once
	sending        sync.Mutex // while bytes are written to the server

	// Under p.mu.
	lost bool // a reply was or will be dropped: the stream is beyond repair
	lose bool // the next bytes from the server are not to arrive
	held bool // bytes from the server wait
}

// New starts a proxy to a server at "host:port" or at the path of a socket. requests,
// unless nil, is called for every connection. What it returns sees all that the client
// sends, before that is passed on.
func New(target string, requests func(*Conn) func([]byte)) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return on(l, target, requests), nil
}

func on(l net.Listener, target string, requests func(*Conn) func([]byte)) *Proxy {
	p := &Proxy{
		Addr: l.Addr().String(), target: target, requests: requests, listener: l, changed: make(chan struct{}),
		conns: map[*Conn]struct{}{}, cut: [2]int{-1, -1},
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
	return p
}

// Effects returns what the faults have done so far.
func (p *Proxy) Effects() Effects {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.effects
}

// Delay lets every byte arrive that much later, in each direction.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.delay = d }) }

// BlackHole lets nothing pass until it is healed; then what was sent arrives,
// as it does when a network's packets are sent again.
func (p *Proxy) BlackHole(on bool) { p.set(func() { p.stop = [2]bool{on, on} }) }

// StopRequests is BlackHole for what clients send.
func (p *Proxy) StopRequests(on bool) { p.set(func() { p.stop[request] = on }) }

// StopReplies is BlackHole for what the server sends.
func (p *Proxy) StopReplies(on bool) { p.set(func() { p.stop[reply] = on }) }

// Refuse cuts new connections at once. Those that stand are not touched.
func (p *Proxy) Refuse(on bool) { p.set(func() { p.refuse = on }) }

// DropReplies lets requests pass and drops the answers. When it is healed,
// connections that lost an answer are reset, and so are those whose answer has
// not come yet: what is asked meanwhile is never answered.
func (p *Proxy) DropReplies(on bool) {
	p.set(func() { p.dropReply = on })
	if on {
		return
	}
	for _, c := range p.all(func(c *Conn) bool { return c.lost }) {
		c.reset()
	}
}

// Reset cuts every connection with a TCP reset.
func (p *Proxy) Reset() {
	for _, c := range p.all(func(*Conn) bool { return true }) {
		c.reset()
	}
}

// CutRequest passes n more bytes of requests and then resets the connection
// that was in the middle: once.
func (p *Proxy) CutRequest(n int) { p.set(func() { p.cut[request] = n }) }

// CutReply passes n more bytes of replies and then resets the connection: once.
func (p *Proxy) CutReply(n int) { p.set(func() { p.cut[reply] = n }) }

// LoseNext cuts the connections on which the next n answers come, in place of them.
func (p *Proxy) LoseNext(n int) { p.set(func() { p.loseNext = n }) }

// HoldNext lets the next n answers wait until Release, and all that follows them on their
// connections. Other connections go on.
func (p *Proxy) HoldNext(n int) { p.set(func() { p.holdNext = n }) }

// Release lets arrive what HoldNext and HoldAnswers hold.
func (p *Proxy) Release() {
	p.set(func() {
		p.holdNext = 0
		for c := range p.conns {
			c.held = false
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

// all returns the connections that are meant. meant is called with mu held.
func (p *Proxy) all(meant func(*Conn) bool) []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*Conn
	for c := range p.conns {
		if meant(c) {
			list = append(list, c)
		}
	}
	return list
}

const acceptAgain = 10 * time.Millisecond

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // this process may open no more files, until it closes some
			time.Sleep(acceptAgain)
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	p.mu.Lock()
	refuse, target := p.refuse, p.target
	if refuse {
		p.effects.Refused++
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
	c := &Conn{p: p, client: client, server: server}
	p.mu.Lock()
	p.conns[c] = struct{}{}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		c.end()
	}
	var both sync.WaitGroup
	both.Go(func() { c.copy(server, client, request) })
	both.Go(func() { c.copy(client, server, reply) })
	both.Wait()
}
