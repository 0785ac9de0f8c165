package redislock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// group collects uncontended Joins and Leaves of concurrent callers into calls
// of group.lua. With many callers most of the work of a lock is not the lock: it
// is beginning a script, reading the clock, writing and reading a request. So
// they share that.
//
// Up to crew goroutines send them, each on a connection of its own where there can
// be one (see alone): a request then takes no way through other goroutines. The
// first begins with the first call, another whenever enough of them wait; calls
// that come meanwhile gather. No call waits for a clock.
type group struct {
	script script

	mu        sync.Mutex
	gathering []*member
	flying    map[*flight]struct{}
	senders   int           // that do not hang
	conns     []laneConn    // that no sender uses
	opened    int           // connections there are, are being made, or cannot be made
	pause     time.Duration // before the next is made, after one could not be
	closed    bool
	idle      sync.Pool // of *member
}

// flight is one request under way.
type flight struct {
	members []*member
	conn    laneConn // nil: one that is shared
	ctx     context.Context
	stop    func() // ends ctx
	age     int    // in ticks
	cut     bool
	hangs   bool // its sender does not count any more
}

// member is one caller's call.
type member struct {
	ctx    context.Context
	call   call
	result chan reply // capacity 1
	given  bool       // under group.mu: nobody waits any more
}

// reply is what became of a member: simple is false if nothing was done.
type reply struct {
	rueidis.RedisResult
	simple bool
}

const (
	// many is how many calls must be under way before they are sent in groups.
	// With fewer the detour costs more than it saves.
	many = 32

	// enough is how many are sent at once at most, so that the server works on
	// some while this process makes the next.
	enough = 16

	// crew is how many goroutines send at most. While there are fewer, another
	// begins when waiting calls have gathered.
	crew    = 4
	waiting = 8

	// A request hangs after so many ticks, and is given up if nobody waits for it
	// after so many: a server that is only slow must not be dialed again and again.
	hanging   = 2
	abandoned = int(time.Second / tick)

	// A connection that broke, or could not be made, is replaced after a pause.
	shortestPause, longestPause = time.Second, 30 * time.Second
)

// inGroup makes one call of a script with others. It reports false if that
// script itself has to be asked.
func (e *server) inGroup(ctx context.Context, c call) (rueidis.RedisResult, bool) {
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err), true
	}
	g := &e.group
	m, _ := g.idle.Get().(*member)
	if m == nil {
		m = &member{result: make(chan reply, 1)}
	}
	m.ctx, m.call = ctx, c
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return rueidis.NewErrorResult(engine.ErrClosed), true
	}
	g.gathering = append(g.gathering, m)
	if g.senders == 0 || g.senders < crew && len(g.gathering) >= waiting {
		e.beginSender()
	}
	g.mu.Unlock()
	r := <-m.result // overdue answers if ctx ends first
	if m.given {
		return r.RedisResult, true // the group still has it: not for others
	}
	m.ctx, m.call = nil, call{}
	g.idle.Put(m)
	return r.RedisResult, r.simple
}

// beginSender is called with mu held. Not the caller itself sends: its context may
// end before the answers come. Close does not wait for senders: it has ended what
// they wait for, but a shared connection that is being made bounds itself.
func (e *server) beginSender() {
	e.group.senders++
	go e.sendGroups()
}

// sendGroups sends for as long as calls gather.
func (e *server) sendGroups() {
	runtime.Gosched() // whoever is ready to make a call makes it first
	g := &e.group
	var conn laneConn
	for {
		g.mu.Lock()
		b := g.take(conn)
		if b == nil {
			g.senders--
			g.put(e, conn)
			g.mu.Unlock()
			return
		}
		if conn = b.conn; conn == nil && g.opened < min(crew, g.senders) && !g.closed {
			// Dialing takes a while: meanwhile the client's connections do.
			g.opened++
			e.spawn(e.openSender)
		}
		g.mu.Unlock()
		if !e.sendGroup(b) {
			conn = nil
		}
		if b.hangs && !e.countAgain(conn) {
			return
		}
	}
}

// countAgain has a sender whose request hung go on, unless there are enough by
// now, who then have its connection.
func (e *server) countAgain(conn laneConn) bool {
	g := &e.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.senders >= crew {
		g.put(e, conn)
		return false
	}
	g.senders++
	return true
}

// take begins a flight with what was gathered. Called with mu held.
func (g *group) take(conn laneConn) *flight {
	// Whose caller has gone is not sent.
	g.gathering = slices.DeleteFunc(g.gathering, func(m *member) bool { return m.given })
	n := min(len(g.gathering), enough)
	if n == 0 {
		return nil
	}
	if last := len(g.conns) - 1; conn == nil && last >= 0 {
		conn = g.conns[last]
		g.conns = slices.Delete(g.conns, last, last+1)
	}
	b := newFlight(slices.Clone(g.gathering[:n]), conn)
	g.gathering = slices.Delete(g.gathering, 0, n)
	if g.flying == nil {
		g.flying = map[*flight]struct{}{}
	}
	g.flying[b] = struct{}{}
	return b
}

// newFlight makes a request that can be given up. Its context is nobody's: one
// caller's must not break off the others. On a connection of its own it has none,
// since rueidis hands a call that could be cancelled to other goroutines.
func newFlight(members []*member, conn laneConn) *flight {
	b := &flight{members: members, conn: conn, ctx: context.Background()}
	if conn == nil {
		b.ctx, b.stop = context.WithCancel(b.ctx)
	}
	return b
}

// put leaves a connection to the next sender, or closes it after Close. Called
// with mu held.
func (g *group) put(e *server, conn laneConn) {
	switch {
	case conn == nil:
	case g.closed:
		e.spawn(conn.Close)
	default:
		g.conns = append(g.conns, conn)
	}
}

// replaceLater lets another connection be made in place of one, after a pause.
// Called with mu held.
func (g *group) replaceLater(pause time.Duration) {
	if g.closed {
		return
	}
	time.AfterFunc(pause, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.opened--
	})
}

// openSender makes a connection for a sender. Where there can be none, the shared
// ones serve, and it is not tried again.
func (e *server) openSender() {
	conn, err := e.dialAlone(false)
	g := &e.group
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		g.pause = min(max(shortestPause, 2*g.pause), longestPause)
		g.replaceLater(g.pause)
	case conn.Client != nil && g.closed:
		conn.Close()
	case conn.Client != nil:
		g.pause = 0
		g.conns = append(g.conns, conn)
	}
}

// sendGroup makes one request and answers its members. It reports false if the
// connection is no good any more.
func (e *server) sendGroup(b *flight) bool {
	g := &e.group
	n := len(b.members)
	var room struct {
		keys [enough]string
		args [2 * enough]string
	}
	keys, args := room.keys[:0], room.args[:0] // copied by command
	for _, m := range b.members {
		lifetime := ""
		if len(m.call.args) > 1 {
			lifetime = m.call.args[1]
		}
		keys, args = append(keys, m.call.keys[0]), append(args, m.call.args[0], lifetime)
	}
	do := e.client.Do
	if b.conn != nil {
		do = b.conn.Do
	}
	r := do(b.ctx, g.script.command(e.client, false, keys, args))
	if noScript(r.Error()) {
		r = do(b.ctx, g.script.command(e.client, true, keys, args))
	}
	// A connection that broke may have carried it out, or not; what the server
	// refused as a whole has done nothing, and each finds out why by itself.
	results, err := r.ToArray()
	unclear := err != nil && r.NonRedisError() != nil

	g.mu.Lock()
	delete(g.flying, b)
	good := !b.cut && !unclear
	switch {
	case b.conn == nil && b.cut:
		err = context.DeadlineExceeded // it took longest
	case b.conn != nil && !good:
		g.replaceLater(shortestPause)
		if !b.cut {
			e.spawn(b.conn.Close)
		}
	}
	g.mu.Unlock()
	if b.stop != nil {
		b.stop()
	}
	for i, m := range b.members {
		switch {
		case m.given:
		case unclear:
			m.result <- reply{rueidis.NewErrorResult(err), true}
		case len(results) != n || results[i].IsNil():
			m.result <- reply{}
		default:
			m.result <- reply{rueidis.NewResult(results[i], nil), true}
		}
	}
	return good
}

// overdueGroup answers callers whose contexts have ended: what was not sent then
// is not sent any more. A request goes on while somebody waits for it, for at most
// longest. One that hangs keeps nobody from sending. It reports whether requests
// are under way.
func (e *server) overdueGroup() bool {
	g := &e.group
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answer(func(m *member) error { return m.ctx.Err() })
	for b := range g.flying {
		if b.age++; b.age >= hanging && !b.hangs {
			b.hangs = true
			g.senders--
		}
		waited := slices.ContainsFunc(b.members, func(m *member) bool { return !m.given })
		if b.age > longest || !waited && b.age >= abandoned {
			e.cutFlight(b)
		}
	}
	if len(g.gathering) > 0 && g.senders == 0 {
		e.beginSender()
	}
	return len(g.flying) > 0
}

// closeGroup answers all callers, and ends what they wait for.
func (e *server) closeGroup() {
	g := &e.group
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.answer(func(*member) error { return engine.ErrClosed })
	for b := range g.flying {
		e.cutFlight(b)
	}
	for _, conn := range g.conns {
		e.spawn(conn.Close)
	}
	g.conns = nil
}

// cutFlight closes the connection under a request, or gives up waiting for one
// that is shared.
func (e *server) cutFlight(b *flight) {
	if b.cut {
		return
	}
	if b.cut = true; b.conn != nil {
		e.spawn(b.conn.Close)
	} else {
		b.stop()
	}
}

// answer answers those that with has an error for. Called with mu held.
func (g *group) answer(with func(*member) error) {
	each := func(members []*member) {
		for _, m := range members {
			if m.given {
				continue
			}
			if err := with(m); err != nil {
				m.given = true
				m.result <- reply{rueidis.NewErrorResult(err), true}
			}
		}
	}
	each(g.gathering)
	for b := range g.flying {
		each(b.members)
	}
}
