package queuestore

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"iter"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/mailbox"
)

// Options are the choices of an Engine. Nil means the defaults.
type Options struct {
	// Poll, unless 0, says that notifications do not reach other clients. It is how long
	// the first waiter of a queue waits before it polls; the engine advises waiters behind
	// it to wait pollOthers times that.
	Poll time.Duration
}

// pollOthers is how many times longer than the first waiter the others wait.
const pollOthers = 20

// Engine is one client of a store.
type Engine struct {
	client     string
	store      Store
	lives      Liveness // the store, if it has them, else nil
	guarantees engine.Guarantees
	poll       time.Duration

	gate   sync.RWMutex // read: a method runs. Written once, by Close
	closed bool         // under gate
	end    context.Context
	stop   context.CancelFunc
	tasks  sync.WaitGroup // goroutines of pollSoon

	mail *mailbox.Box

	mu      sync.Mutex
	polling map[string]bool   // names that pollSoon is about to poll
	asked   map[string]uint64 // by name, the ticket after whose client it asked last: see findDead
}

var _ engine.Engine = (*Engine)(nil)

// New returns the engine of one client. client names it in queues and for Notify. It must
// differ from every client that the store ever had: see [NewClient]. The engine closes the
// store.
func New(client string, s Store, o *Options) *Engine {
	g := s.Guarantees()
	g.Order, g.SeesWaiters = engine.FIFO, true
	g.Modes = engine.Exclusive | engine.Shared | engine.Permits
	e := &Engine{client: client, store: s, guarantees: g, polling: map[string]bool{}, asked: map[string]uint64{}}
	e.lives, _ = s.(Liveness)
	if o != nil {
		e.poll = o.Poll
	}
	e.end, e.stop = context.WithCancel(context.Background())
	e.mail = mailbox.New()
	return e
}

// NewClient returns a name for a client: 64 random bits as 13 lower-case letters and
// digits.
func NewClient() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees { return e.guarantees }

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	j := &joining{request: r}
	j.operation = operation{run: join, client: e.client, join: &j.request}
	cs, err := e.update(ctx, r.Name, &j.operation)
	if err != nil {
		return engine.Claim{}, err
	}
	return cs[0], nil
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	return batch(ctx, rs, func(r *engine.Renewal) string { return r.Name }, func(name string, rs []engine.Renewal) ([]engine.Claim, error) {
		return e.update(ctx, name, &operation{run: renew, renews: rs})
	})
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	return batch(ctx, cs, func(c *engine.Claim) string { return c.Name }, func(name string, cs []engine.Claim) ([]engine.Claim, error) {
		return e.update(ctx, name, &operation{run: leave, leaves: cs})
	})
}

// Revoke implements [engine.Engine].
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	_, err := e.update(ctx, name, &operation{run: func(c *Record, op *operation) {
		op.notifications, op.err = c.Queue.Revoke(c.Now, c.Name, ticket, now)
	}})
	return err
}

// Queue implements [engine.Engine].
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	if err := e.enter(); err != nil {
		return engine.Queue{}, err
	}
	defer e.leave()
	c, err := e.store.Read(ctx, name)
	if err != nil {
		return engine.Queue{}, err
	}
	return e.view(name, &c), nil
}

// view shows a record as the next change will find it: without dead clients.
func (e *Engine) view(name string, c *Record) engine.Queue {
	if e.lives != nil {
		dead := map[string]bool{}
		c.Queue.Depart(c.Now, name, func(client string) bool {
			is, asked := dead[client]
			if !asked {
				is = e.isDead(client)
				dead[client] = is
			}
			return is
		})
	}
	return c.Queue.View(c.Now, name)
}

// Queues implements [engine.Engine].
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		for after := ""; ; {
			queues, next, err := e.page(ctx, prefix, after)
			for _, l := range queues {
				if !yield(l, nil) {
					return
				}
			}
			if err != nil {
				yield(engine.Queue{}, err)
				return
			}
			if next == "" {
				return
			}
			after = next
		}
	}
}

// page is what Queues asks the store for at a time. Close must not wait for the caller of
// Queues.
func (e *Engine) page(ctx context.Context, prefix, after string) (queues []engine.Queue, next string, err error) {
	if err := e.enter(); err != nil {
		return nil, "", err
	}
	defer e.leave()
	records, next, err := e.store.Records(ctx, prefix, after)
	for i := range records {
		if l := e.view(records[i].Name, &records[i]); len(l.Claims) > 0 {
			queues = append(queues, l)
		}
	}
	return queues, next, err
}

// enter lets a method run until Close: the engine closes the store when no method runs.
func (e *Engine) enter() error {
	e.gate.RLock()
	if e.closed {
		e.gate.RUnlock()
		return engine.ErrClosed
	}
	return nil
}

func (e *Engine) leave() { e.gate.RUnlock() }

// Close implements [engine.Engine]. It waits for calls under way, which end with
// their contexts. The error is the store's.
func (e *Engine) Close() error {
	e.gate.Lock()
	if e.closed {
		e.gate.Unlock()
		return nil
	}
	e.closed = true
	e.gate.Unlock()

	e.mu.Lock()
	e.stop() // under mu: pollSoon begins nothing after it
	e.mu.Unlock()
	e.tasks.Wait()
	return e.store.Close()
}
