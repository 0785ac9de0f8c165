package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
)

// master is one of the independent servers. What it owes is bounded: one that
// does not answer in time is asked nothing more until it does, except to give up
// what it may have granted.
type master struct {
	name     string        // host:port, for people
	patience time.Duration // how long it may owe an answer before it is let alone
	opened   chan struct{} // closed when client is there
	again    sync.Mutex    // held while it takes locks again: a claim is left there before or after that
	releases releases
	scripts  *scripts
	sharing  *sharing // of Joins and Leaves

	mu       sync.Mutex
	client   *redisconn.Client // nil: it was not reached yet
	closed   bool
	why      error // why it is let alone
	rests    time.Duration
	owes     int           // calls that it has not answered
	received time.Duration // when it answered last, or began to owe
	run      string        // that was looked at last; "": none yet
}

// Bounds of what a master may owe, and for how long it is let alone after its
// connection failed.
const (
	mostOwed   = 4096
	mostMusts  = 2 * mostOwed
	pauseAfter = 50 * time.Millisecond
)

func newMaster(name string, patience time.Duration) *master {
	return &master{name: name, patience: patience, opened: make(chan struct{}), why: errors.New("it was not reached yet")}
}

// use gives it its client, which it closes if it was closed meanwhile.
func (m *master) use(c *redisconn.Client) {
	m.mu.Lock()
	m.client, m.why = c, nil
	close(m.opened)
	closed := m.closed
	m.mu.Unlock()
	if closed {
		c.Close()
	}
}

// there: it has its client.
func (m *master) there() bool {
	select {
	case <-m.opened:
		return true
	default:
		return false
	}
}

// unreached says why it has no client yet.
func (m *master) unreached(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.why = err
}

// enter begins a call, unless the master is let alone. must: the call gives up
// what may stand there.
func (m *master) enter(must bool) (*redisconn.Client, error) {
	now := boottime.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.client == nil || now < m.rests:
		return nil, m.why
	case m.owes > 0 && now-m.received > m.patience && !must, m.owes >= mostOwed && !must, m.owes >= mostMusts:
		return nil, fmt.Errorf("no answer for %v", (now - m.received).Round(time.Millisecond))
	}
	if m.owes == 0 {
		m.received = now
	}
	m.owes++
	return m.client, nil
}

// leave ends a call.
func (m *master) leave(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owes--
	m.received = boottime.Now()
	var failed *net.OpError
	if errors.As(err, &failed) {
		// Each further call would dial, and a Redis that is down is not back in
		// an instant.
		m.rests, m.why = m.received+pauseAfter, err
	}
}

// calls makes calls that need no vote. must: they give up what may stand there.
func (m *master) calls(ctx context.Context, must bool, s *redisconn.Script, calls []redisconn.Call) ([]redisconn.Answer, error) {
	client, err := m.enter(must)
	if err != nil {
		return nil, err
	}
	answers := m.send(ctx, client, s, "", calls)
	m.leave(answers[len(answers)-1].NonRedisError())
	return answers, nil
}

// vote makes calls that count only from a master that has a vote. An error says that
// it was not asked.
func (m *master) vote(ctx context.Context, s *redisconn.Script, calls []redisconn.Call) ([]redisconn.Answer, error) {
	client, err := m.enter(false)
	if err != nil {
		return nil, err
	}
	run, err := client.Run(ctx, calls[0].Keys[0])
	if err != nil {
		m.leave(err)
		return nil, err
	}
	answers := m.send(ctx, client, s, run, calls)
	m.leave(answers[len(answers)-1].NonRedisError())
	return answers, nil
}

func (m *master) close() {
	m.mu.Lock()
	c := m.client
	m.closed = true
	m.mu.Unlock()
	if c != nil {
		c.Close()
	}
}

// ask has every master asked, side by side, and is what they say.
func ask[T any](e *Engine, f func(i int, m *master) T) <-chan T {
	said := make(chan T, len(e.masters))
	for i, m := range e.masters {
		e.spawn(func() { said <- f(i, m) })
	}
	return said
}

// hear hands on what was said until it is enough, all have spoken for whom there is room,
// or it is late.
//
// Errors: that of ctx; [engine.ErrClosed].
func receive[T any](ctx context.Context, e *Engine, said <-chan T, late <-chan time.Time, enough func(T) bool) error {
	for range cap(said) {
		select {
		case x := <-said:
			if enough(x) {
				return nil
			}
		case <-late:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-e.life.Done():
			return engine.ErrClosed
		}
	}
	return nil
}
