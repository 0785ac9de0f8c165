package etcdlock

import (
	"context"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"leasehold/engine"
)

// looks reads queues for many callers at once: who asks while a queue is read is
// answered by the next reading of it, together with all who ask until then. A crowd
// of one client costs etcd a few readings of its queue instead of one for each.
type looks struct {
	mu    sync.Mutex
	next  map[reading]*look // is asked for and not sent
	under map[reading]bool  // somebody reads that queue
}

// reading is what callers share.
type reading struct {
	name string

	// crowd: for those that join in one, and wait anyway. They wait for more of them
	// the longer the queue is, so that what is read grows with their number, and not
	// with its square.
	crowd bool
}

// perPlace is how long who joins in a crowd waits for each claim in the queue.
const perPlace = 50 * time.Microsecond

// look is one reading.
type look struct {
	upTo uint64 // a ticket: who is behind does not matter. 0: everybody does
	done chan struct{}

	// When done.
	queue    line
	revision int64
	err      error
}

// lookAt is a queue as it was after the call, up to that ticket at least: 0 is all of
// it. Of no name, the queue is empty, and the answer says that etcd answers.
func (e *Engine) lookAt(ctx context.Context, what reading, upTo uint64) (line, int64, error) {
	s := &e.looks
	s.mu.Lock()
	n := s.next[what]
	if n == nil {
		n = &look{upTo: upTo, done: make(chan struct{})}
		s.next[what] = n
	}
	if n.upTo != 0 && (upTo == 0 || upTo > n.upTo) {
		n.upTo = upTo
	}
	if !s.under[what] {
		if !e.begun(func(life context.Context) { e.readFor(life, what) }) {
			delete(s.next, what)
			s.mu.Unlock()
			return line{}, 0, engine.ErrClosed
		}
		s.under[what] = true
	}
	s.mu.Unlock()
	select {
	case <-n.done:
		return n.queue, n.revision, n.err
	case <-ctx.Done():
		return line{}, 0, ctx.Err()
	}
}

// readFor reads a queue for as long as somebody asks for it.
func (e *Engine) readFor(life context.Context, what reading) {
	s := &e.looks
	for places := 0; ; {
		if what.crowd {
			select {
			case <-time.After(time.Duration(places) * perPlace):
			case <-life.Done():
			}
		}
		s.mu.Lock()
		n := s.next[what]
		delete(s.next, what)
		if n == nil {
			delete(s.under, what)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(life, shared)
		n.err = e.again(ctx, one(func(ctx context.Context) error {
			r, err := e.do(ctx, e.look(what.name, n.upTo))
			if err == nil {
				n.queue, n.revision = e.keys.read((*pb.RangeResponse)(r.Get())), r.Get().Header.Revision
			}
			return err
		}))
		cancel()
		places = len(n.queue.places)
		close(n.done)
	}
}
