package fence

import (
	"context"
	"sync"

	"leasehold"
)

// Marks are the marks of a kind of resource.
type Marks interface {
	// Do calls write if the pass is let in, and returns what it returned. Until then
	// nobody with a newer token is let in, so that what write does comes before
	// what they do.
	//
	// Errors: a StaleError, ErrPass, the cause of ctx if it ended before write began.
	Do(ctx context.Context, p Pass, write func() error) error
}

// Memory are marks in this process: for tests, and for a server that is one process
// and whose data does not outlive it either. After a restart it has seen nobody, and
// lets in who was stale. It forgets no name. The zero value is ready.
type Memory struct {
	mu    sync.Mutex
	marks map[string]*mark
}

type mark struct {
	sync.RWMutex // held while an exclusive pass writes; shared ones read together
	token        leasehold.Token
}

var _ Marks = (*Memory)(nil)

// Do is that of Marks. write must not call Do for the same name: it would wait for
// itself.
func (m *Memory) Do(ctx context.Context, p Pass, write func() error) error {
	if err := p.Valid(); err != nil {
		return err
	}
	k := m.of(p.Name)
	if p.Raises() == 0 {
		k.RLock()
		defer k.RUnlock()
	} else {
		k.Lock()
		defer k.Unlock()
	}
	// Checked here and not before: while this one waited, a newer token may have come.
	if err := p.Check(k.token); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.Raises() != 0 {
		k.token = p.Token
	}
	return write()
}

func (m *Memory) of(name string) *mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.marks[name]
	if k == nil {
		if m.marks == nil {
			m.marks = map[string]*mark{}
		}
		k = &mark{}
		m.marks[name] = k
	}
	return k
}
