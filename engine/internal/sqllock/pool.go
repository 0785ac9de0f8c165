package sqllock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"time"
)

// Pool is how a client comes to connections of its pool. A server that takes no more
// connections is no answer while those that live do the work: who was refused one is
// handed the next of this client's that is free, renewals first.
//
// Where it keeps one for renewals, nobody else may take that while there is something to
// renew. It is the connection of the first Join, so it is there before a lease is, and calls
// which wait for a row that somebody else keeps locked, or a server that is full, cost no
// lease. A client that has one claim at a time needs no other connection: its Join and its
// Leave take that one.
type Pool[C any] struct {
	Claims Claims // what there is to renew; an [Engine] notes them

	source Source[C]
	kept   chan idle[C] // capacity 1; nil: none is kept
	first  chan C       // to a renewal that waits for one
	next   chan C       // to another call that does
	closed atomic.Bool
}

// Source is a pool of a driver's.
type Source[C any] interface {
	Take(context.Context) (C, error)
	Give(C) // whatever happened on it

	// Sound is whether the next call may use a connection after one that ended so.
	Sound(C, error) bool

	// Stands is whether a connection still stands that did nothing for so long: a
	// renewal should not be what finds out.
	Stands(context.Context, C, time.Duration) bool

	// Full is whether an error of Take says that the server takes no more connections.
	Full(error) bool
}

type idle[C any] struct {
	conn  C
	since time.Time
}

// NewPool is a client's way to a pool. keep: one connection of it is for renewals.
func NewPool[C any](s Source[C], keep bool) *Pool[C] {
	p := &Pool[C]{source: s, first: make(chan C), next: make(chan C)}
	if keep {
		p.kept = make(chan idle[C], 1)
	}
	return p
}

// Kind is what a call is to a pool.
type Kind int

const (
	Other   Kind = iota
	Joining      // from now on there may be something to renew
	Renewing
)

// Do makes a call on a connection.
func (p *Pool[C]) Do(ctx context.Context, k Kind, call func(C) error) error {
	c, err := p.connection(ctx, k)
	if err != nil {
		return err
	}
	err = call(c)
	if !p.source.Sound(c, err) {
		p.source.Give(c)
		return err
	}
	if k != Other {
		select {
		case p.kept <- idle[C]{c, time.Now()}:
			if p.closed.Load() { // meanwhile: Close has not seen it, or has just given it back
				p.Close()
			}
			return err
		default: // one is kept, or none ever
		}
	}
	select {
	case p.first <- c:
		return err
	default:
	}
	select {
	case p.next <- c:
	default:
		p.source.Give(c)
	}
	return err
}

const (
	// Between two attempts to make a connection where the server was full.
	pauseLeast, pauseMost = 20 * time.Millisecond, time.Second
)

// keptFor is how long a renewal waits for the kept connection while another renewal has it.
// Most are answered by then, and a client has one connection less. One that hangs delays
// no other for longer: that one goes beside.
const keptFor = 20 * time.Millisecond

// await is what is kept, if it is free soon. kept is nil for who may not have it.
func await[C any](ctx context.Context, kept <-chan idle[C]) (i idle[C], free bool) {
	if kept == nil {
		return i, false
	}
	select { // it mostly is, and the time may be over before a busy machine looks
	case i = <-kept:
		return i, true
	default:
	}
	timer := time.NewTimer(keptFor)
	defer timer.Stop()
	select {
	case i = <-kept:
		return i, true
	case <-timer.C:
	case <-ctx.Done(): // which the attempt to take one reports
	}
	return i, false
}

func (p *Pool[C]) connection(ctx context.Context, k Kind) (c C, err error) {
	kept, freed := p.kept, p.first
	if k != Renewing {
		if i, free := p.unneeded(k); free {
			if p.source.Stands(ctx, i.conn, time.Since(i.since)) {
				return i.conn, nil
			}
			p.source.Give(i.conn)
		}
		kept, freed = nil, p.next
	}
	for pause := pauseLeast; ; pause = min(2*pause, pauseMost) {
		if i, free := await(ctx, kept); free {
			if p.source.Stands(ctx, i.conn, time.Since(i.since)) {
				return i.conn, nil
			}
			p.source.Give(i.conn)
		}
		// A server that has no room, or a proxy before it, may also cut a connection
		// that it has just taken. One that is down refuses it.
		if c, err = p.source.Take(ctx); err == nil || !p.source.Full(err) && !errors.Is(err, syscall.ECONNRESET) {
			return c, err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case i := <-kept:
			c, err = i.conn, nil // it was in use a moment ago
		case c = <-freed:
			err = nil
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err == nil || ctx.Err() != nil {
			return c, err
		}
	}
}

// unneeded is what is kept, if nothing but the caller's own Join may need it. A Join that
// begins now finds none kept. It takes another connection, which is kept from its answer on:
// before there is a lease.
func (p *Pool[C]) unneeded(k Kind) (i idle[C], free bool) {
	own := 0
	if k == Joining {
		own = 1
	}
	if !p.Claims.atMost(own) {
		return i, false
	}
	select {
	case i = <-p.kept:
		return i, true
	default:
		return i, false
	}
}

// Close gives back what is kept. Calls that are under way end as they would.
func (p *Pool[C]) Close() {
	p.closed.Store(true)
	select {
	case i := <-p.kept:
		p.source.Give(i.conn)
	default:
	}
}
