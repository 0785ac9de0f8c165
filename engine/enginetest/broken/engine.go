package broken

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
)

// Engine is one client of a World.
type Engine struct {
	w      *World
	inner  atomic.Pointer[memlock.Engine]
	closed atomic.Bool
	lose   atomic.Bool            // the next answer
	fail   atomic.Pointer[string] // that name, in the next batch

	changed func(engine.Claim) // the Watch that runs, under w.mu
}

var _ engine.Engine = (*Engine)(nil)

var (
	errWire = errors.New("the wire was cut")
	errFull = errors.New("the server takes no more connections")
	errJunk = errors.New("what stands under the name is of another program")
	errBusy = errors.New("the server is busy")
)

func (e *Engine) lost() error {
	if e.lose.Swap(false) {
		return errWire
	}
	return nil
}

// begin is what comes before every call that names a queue, under the lock.
func (e *Engine) begin(ctx context.Context, name string) error {
	w := e.w
	if w.fault.before != nil {
		w.fault.before(w, name)
	}
	w.requests++
	if w.fault.cost != nil {
		w.requests += w.fault.cost(e, name)
	}
	switch {
	case w.spoiled[name] && w.fault.junk != nil:
		return w.fault.junk(e, ctx, name)
	case w.spoiled[name]:
		return errJunk
	case w.busy:
		return errBusy
	}
	return nil
}

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	w := e.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := e.begin(ctx, r.Name); err != nil {
		return engine.Claim{}, err
	}
	join := (*Engine).join
	if w.fault.join != nil {
		join = w.fault.join
	}
	c, err := join(e, ctx, r)
	c = e.reply(c)
	if lost := e.lost(); lost != nil {
		return engine.Claim{}, lost
	}
	return c, err
}

// join is the innocent Join, remembered.
func (e *Engine) join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	c, err := e.inner.Load().Join(ctx, r)
	if err != nil || c.State == engine.Gone {
		return c, err
	}
	p := e.w.pastOf(r.Name)
	if c.State == engine.Waiting && len(e.front(r.Name)) <= 8 {
		p.waits++
	}
	if k := e.w.claims[r.ID]; k != nil {
		k.ticket = c.Ticket
	} else {
		e.w.claims[r.ID] = &claim{Request: r, by: e, ticket: c.Ticket}
	}
	delete(e.w.claims, r.Replaces)
	return c, nil
}

// reply is what a fault makes of an honest reply of Join or Renew.
func (e *Engine) reply(c engine.Claim) engine.Claim {
	if e.w.fault.reply != nil && c.Name != "" {
		c = e.w.fault.reply(e, c)
	}
	if e.w.fault.alias != nil {
		c = e.w.fault.alias(e, c)
	}
	if k := e.w.claims[c.ID]; k != nil && c.State == engine.Held {
		k.held = true
	}
	return c
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	w := e.w
	var known map[engine.ID]engine.Request
	if w.fault.late {
		known = e.waiting(rs)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault.dials && w.full {
		if w.refused++; w.refused%3 == 0 {
			return nil, errFull
		}
	}
	cut, failed := e.fail.Swap(nil), error(nil)
	var out []engine.Claim
	if cut != nil {
		failed = errWire
		if w.fault.guesses {
			failed = nil
			for _, r := range rs {
				if r.Name == *cut {
					out = append(out, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Gone})
				}
			}
		}
		rs = slices.DeleteFunc(slices.Clone(rs), func(r engine.Renewal) bool { return r.Name == *cut })
	}
	got, err := e.renewAll(ctx, rs)
	for i := range got {
		if r, waited := known[got[i].ID]; waited && got[i].State == engine.Gone && w.claims[r.ID] == nil && len(e.front(r.Name)) == 0 {
			got[i], _ = e.join(ctx, r)
		}
		got[i] = e.reply(got[i])
	}
	return append(out, got...), errors.Join(err, failed, e.lost())
}

// waiting is what a Renew knows when it begins: which of its claims wait. Others
// may come before it arrives.
func (e *Engine) waiting(rs []engine.Renewal) map[engine.ID]engine.Request {
	e.w.mu.Lock()
	known := map[engine.ID]engine.Request{}
	for _, r := range rs {
		if k := e.w.claims[r.ID]; k != nil && !k.held && !k.marked && k.Name == r.Name {
			known[r.ID] = k.Request
		}
	}
	e.w.mu.Unlock()
	time.Sleep(100 * time.Microsecond)
	return known
}

func (e *Engine) renewAll(ctx context.Context, rs []engine.Renewal) (out []engine.Claim, err error) {
	f := &e.w.fault
	for _, r := range rs {
		if err := e.begin(ctx, r.Name); err != nil {
			return nil, err
		}
	}
	if f.renew == nil {
		return e.inner.Load().Renew(ctx, rs)
	}
	for _, r := range rs {
		c, err := f.renew(e, ctx, r)
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

// renew is the innocent Renew of one claim, for faults.
func (e *Engine) renew(ctx context.Context, r engine.Renewal) (engine.Claim, error) {
	got, err := e.inner.Load().Renew(ctx, []engine.Renewal{r})
	if err != nil {
		return engine.Claim{}, err
	}
	return got[0], nil
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	w := e.w
	w.mu.Lock()
	defer w.mu.Unlock()
	got, err := e.leaveAll(ctx, cs)
	for i := range got {
		if w.fault.alias != nil {
			got[i] = w.fault.alias(e, got[i])
		}
		delete(w.claims, got[i].ID)
	}
	if lost := e.lost(); lost != nil {
		return nil, lost
	}
	return got, err
}

func (e *Engine) leaveAll(ctx context.Context, cs []engine.Claim) (out []engine.Claim, err error) {
	f := &e.w.fault
	for _, c := range cs {
		if err := e.begin(ctx, c.Name); err != nil {
			return nil, err
		}
	}
	if f.leave == nil {
		return e.inner.Load().Leave(ctx, cs)
	}
	for _, c := range cs {
		got, err := f.leave(e, ctx, c)
		if err != nil {
			return out, err
		}
		out = append(out, got)
	}
	return out, nil
}

// leave is the innocent Leave of one claim, for faults.
func (e *Engine) leave(ctx context.Context, c engine.Claim) (engine.Claim, error) {
	got, err := e.inner.Load().Leave(ctx, []engine.Claim{c})
	if err != nil {
		return engine.Claim{}, err
	}
	return got[0], nil
}

// Watch implements [engine.Engine]. It breaks when the store is replaced.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	w := e.w
	// Some faults tell from the call that is at fault. That two tell at once is
	// none of them.
	var telling sync.Mutex
	one := func(c engine.Claim) {
		telling.Lock()
		defer telling.Unlock()
		changed(c)
	}
	w.mu.Lock()
	e.changed = one
	w.mu.Unlock()
	if w.fault.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	return e.inner.Load().Watch(ctx, func(c engine.Claim) {
		w.mu.Lock()
		notify := true
		if w.fault.alias != nil {
			c = w.fault.alias(e, c)
		}
		if w.fault.notification != nil && c.Name != "" {
			c, notify = w.fault.notification(e, c)
		}
		if k := w.claims[c.ID]; k != nil && notify && c.State == engine.Held {
			k.held = true
		}
		w.mu.Unlock()
		if notify {
			one(c)
		}
	})
}

// Queue implements [engine.Engine].
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if err := e.begin(ctx, name); err != nil {
		return engine.Queue{}, err
	}
	l, err := e.inner.Load().Queue(ctx, e.fold(name))
	if err == nil {
		l.Name = name
		e.shown(&l)
	}
	return l, err
}

// Queues implements [engine.Engine].
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		for l, err := range e.inner.Load().Queues(ctx, prefix) {
			e.w.mu.Lock()
			e.shown(&l)
			e.w.mu.Unlock()
			if !yield(l, err) {
				return
			}
		}
		if err := e.anyJunk(prefix); err != nil {
			yield(engine.Queue{}, err)
		}
	}
}

// anyJunk is what Queues ends with: after all names that could be read.
func (e *Engine) anyJunk(prefix string) error {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	for name := range e.w.spoiled {
		if strings.HasPrefix(name, prefix) {
			return errJunk
		}
	}
	return nil
}

func (e *Engine) shown(l *engine.Queue) {
	if e.w.fault.line != nil {
		e.w.fault.line(e, l)
	}
}

// Revoke implements [engine.Engine].
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	w := e.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := e.begin(ctx, name); err != nil {
		return err
	}
	if w.fault.revoke != nil {
		return w.fault.revoke(e, ctx, name, ticket, now)
	}
	return e.revoke(ctx, name, ticket, now)
}

func (e *Engine) revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	if k := e.w.byTicket(name, ticket); k != nil {
		k.marked = true
	}
	return e.inner.Load().Revoke(ctx, e.fold(name), ticket, now)
}

func (e *Engine) fold(name string) string {
	if e.w.fault.fold != nil {
		return e.w.fault.fold(name)
	}
	return name
}

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees { return e.inner.Load().Guarantees() }

// Close implements [engine.Engine].
func (e *Engine) Close() error {
	w := e.w
	w.mu.Lock()
	defer w.mu.Unlock()
	e.closed.Store(true)
	for id, k := range w.claims {
		if k.by == e && !k.Detached {
			delete(w.claims, id)
		}
	}
	return e.inner.Load().Close()
}
