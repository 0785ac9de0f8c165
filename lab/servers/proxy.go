package servers

import (
	"maps"
	"sync"

	"leasehold/internal/wire"
)

// Proxy is a wire.Proxy that knows the protocol of its server: it counts the commands
// of clients, and strikes at single ones.
type Proxy struct {
	*wire.Proxy

	mu         sync.Mutex
	counts     map[string]int
	sawCommand func(name string)
	loseReply  map[string]bool // commands whose next answer is to be lost
	holdReply  map[string]bool // commands whose next answer is to wait
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
	p := &Proxy{counts: map[string]int{}}
	w, err := wire.New(target, func(c *wire.Conn) func([]byte) {
		commands := protocol()
		return func(b []byte) { commands.feed(b, func(name string) { p.count(c, name) }) }
	})
	if err != nil {
		return nil, err
	}
	p.Proxy = w // no client has connected: nobody has its address yet
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
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.counts)
}

// OnCommand calls f with every command's name before the command is passed on,
// so that a test can strike at an exact moment. Nil ends it.
func (p *Proxy) OnCommand(f func(name string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sawCommand = f
}

// Refused is how many connections Refuse has cut.
func (p *Proxy) Refused() int { return p.Effects().Refused }

// Lost is how many answers were cut off.
func (p *Proxy) Lost() int { return p.Effects().Lost }

// LoseReply lets the next of these commands reach the server, and cuts its
// connection when the answer comes: once, for whichever command is first.
func (p *Proxy) LoseReply(commands ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loseReply = setOf(commands)
}

// HoldReply lets the next of these commands reach the server, and nothing that the
// server says on that connection arrive until ReleaseReply: once, for whichever command
// is first. Other connections go on.
func (p *Proxy) HoldReply(commands ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdReply = setOf(commands)
}

func setOf(words []string) map[string]bool {
	set := map[string]bool{}
	for _, w := range words {
		set[w] = true
	}
	return set
}

// ReleaseReply lets arrive what HoldReply holds.
func (p *Proxy) ReleaseReply() {
	p.mu.Lock()
	p.holdReply = nil
	p.mu.Unlock()
	p.Release()
}

func (p *Proxy) count(c *wire.Conn, name string) {
	p.mu.Lock()
	p.counts[name]++
	if p.loseReply[name] {
		p.loseReply = nil
		c.LoseAnswer()
	}
	if p.holdReply[name] {
		p.holdReply = nil
		c.HoldAnswers()
	}
	saw := p.sawCommand
	p.mu.Unlock()
	if saw != nil {
		saw(name)
	}
}
