package enginetest

import (
	"context"
	"sync"

	"leasehold/engine"
)

// Attending is e as an [engine.Attender], for tests of who uses one: what e
// reports while somebody attends reaches the core in that goroutine only.
func Attending(e engine.Engine) engine.Engine {
	return &attending{
		Engine: e, arrived: make(chan struct{}, 1), interrupted: make(chan struct{}, 1), closed: make(chan struct{}),
	}
}

type attending struct {
	engine.Engine
	arrived, interrupted chan struct{} // capacity 1
	closed               chan struct{}
	closing              sync.Once

	mu       sync.Mutex
	changed  func(engine.Claim) // while Watch runs
	notes    []engine.Claim     // that nobody was told yet
	attended bool

	telling sync.Mutex // held while changed runs
}

func (a *attending) Watch(ctx context.Context, changed func(engine.Claim)) error {
	a.mu.Lock()
	a.changed = changed
	a.mu.Unlock()
	defer func() {
		a.telling.Lock()
		defer a.telling.Unlock()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.changed, a.notes = nil, nil
	}()
	return a.Engine.Watch(ctx, func(c engine.Claim) {
		a.mu.Lock()
		a.notes = append(a.notes, c)
		attended := a.attended
		a.mu.Unlock()
		if attended {
			signal(a.arrived)
		} else {
			a.tell()
		}
	})
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tell reports what has arrived.
func (a *attending) tell() {
	a.telling.Lock()
	defer a.telling.Unlock()
	a.mu.Lock()
	notes, changed := a.notes, a.changed
	a.notes = nil
	a.mu.Unlock()
	for _, c := range notes {
		changed(c)
	}
}

func (a *attending) Attend(over func() bool) {
	a.mu.Lock()
	if a.changed == nil || a.attended {
		a.mu.Unlock()
		return
	}
	a.attended = true
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.attended = false
		a.mu.Unlock()
		a.tell() // what came between the last look and now
	}()
	for !over() {
		select {
		case <-a.arrived:
			a.tell()
		case <-a.interrupted:
		case <-a.closed:
			return
		}
	}
}

func (a *attending) Interrupt() { signal(a.interrupted) }

func (a *attending) Close() error {
	a.closing.Do(func() { close(a.closed) })
	return a.Engine.Close()
}
