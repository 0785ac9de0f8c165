package fence

import (
	"context"
	"sync"

	"leasehold"
)

// Marks are the marks of one kind of resource.
type Marks interface {
	// Do calls write if the pass is admitted, and returns the error of write. Until then
	// no newer token is admitted, so that this write comes before the writes of newer
	// tokens.
	//
	// Do returns a StaleError, ErrPass, or the cause of ctx if it ended before write
	// began.
	Do(ctx context.Context, p Pass, write func() error) error
}

// Memory keeps marks in this process: for tests, and for a server that is one process and
// whose data does not outlive it either. After a restart it has seen no token, and admits
// stale passes. It forgets no name. The zero value is ready.
type Memory struct {
	mu    sync.Mutex
	marks map[string]*mark
}

// mark is what is known of a name. Exclusive passes write alone, shared ones together.
type mark struct {
	token   leasehold.Token
	alone   bool          // an exclusive pass writes
	shared  int           // shared ones that write
	waiting int           // exclusive ones that wait; shared ones let them pass, or they could wait for ever
	changed chan struct{} // closed, and made again, when somebody waits or writes no longer
}

var _ Marks = (*Memory)(nil)

// Do implements [Marks]. write must not call Do for the same name: it would wait for
// itself, until ctx ends.
func (m *Memory) Do(ctx context.Context, p Pass, write func() error) error {
	if err := p.Valid(); err != nil {
		return err
	}
	if err := m.enter(ctx, p); err != nil {
		return err
	}
	defer m.leave(p)
	return write()
}

// enter checks the pass when nobody is in its way, and raises the mark.
func (m *Memory) enter(ctx context.Context, p Pass) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, alone := m.of(p.Name), p.Raises() != 0
	if alone {
		k.waiting++
		defer func() {
			k.waiting--
			k.wake()
		}()
	}
	for {
		// After each wait again: a newer token may have come meanwhile.
		if err := p.Check(k.token); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !k.alone && (alone && k.shared == 0 || !alone && k.waiting == 0) {
			break
		}
		changed := k.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		m.mu.Lock()
	}
	k.alone = alone
	if alone {
		k.token = p.Token
	} else {
		k.shared++
	}
	return nil
}

func (m *Memory) leave(p Pass) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.of(p.Name)
	if k.alone {
		k.alone = false
	} else {
		k.shared--
	}
	k.wake()
}

// of is called with the lock held.
func (m *Memory) of(name string) *mark {
	k := m.marks[name]
	if k == nil {
		if m.marks == nil {
			m.marks = map[string]*mark{}
		}
		k = &mark{changed: make(chan struct{})}
		m.marks[name] = k
	}
	return k
}

// wake makes every waiter check again.
func (k *mark) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}
