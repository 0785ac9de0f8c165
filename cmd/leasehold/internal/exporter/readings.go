package exporter

import (
	"context"
	"sync"
	"time"
)

// readings shares readings between scrapes.
type readings struct {
	every, within time.Duration
	read          func(context.Context) (*figures, error)
	failed        func(error) // see Options.Failed; nil: nobody wants to know

	mu       sync.Mutex
	closed   bool
	last     outcome
	expires  time.Time     // when last serves no longer
	running  chan struct{} // closed when the reading that goes on has an outcome; nil: none does
	cancel   context.CancelFunc
	reader   sync.WaitGroup // the goroutine that reads
	overdue  bool           // the reading has its outcome already, and has not returned yet
	done     int            // readings that ended
	failures int            // those of them that failed
	good     time.Time      // when the last one began that did not fail
	failing  bool           // what failed was told last, or what the first reading found
	telling  bool           // failed is being called
}

// outcome is what a reading found, or why it failed, and how it stood then.
type outcome struct {
	figures        *figures // nil: it failed
	err            error
	took           time.Duration
	done, failures int
	good           time.Time
}

// get returns the outcome of the last reading. If that is too old it waits for the one
// that goes on, or for one of its own.
func (r *readings) get() outcome {
	r.mu.Lock()
	if r.running == nil && !r.overdue && !r.closed && !time.Now().Before(r.expires) {
		r.beginLocked()
	}
	running := r.running
	r.mu.Unlock()
	if running != nil {
		<-running // within r.within
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *readings) beginLocked() {
	began, running := time.Now(), make(chan struct{})
	ctx, cancel := context.WithTimeoutCause(context.Background(), r.within, errLate)
	r.running, r.cancel = running, cancel
	settle := func(f *figures, err error) {
		if r.running != running {
			return // it was late, and nobody waits for it any more
		}
		r.done++
		if err != nil {
			f = nil
			r.failures++
		} else {
			r.good = began
		}
		if r.done == 1 {
			r.failing = err != nil
		}
		now := time.Now()
		r.last = outcome{f, err, now.Sub(began), r.done, r.failures, r.good}
		r.expires = now.Add(r.every)
		r.running = nil
		close(running)
		go r.tell() // neither scrapes nor close wait for a log
	}
	// An engine that does not heed its context holds up nobody but the next reading.
	late := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.overdue = r.running == running
		settle(nil, context.Cause(ctx))
	})
	r.reader.Go(func() {
		f, err := r.read(ctx)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		late()
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		settle(f, err)
		r.overdue = false
	})
}

// tell says whether readings fail, each time that this has changed. It lets go of mu meanwhile,
// since a log may block. One call says it all in turn.
func (r *readings) tell() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.failed != nil && !r.telling && !r.closed && r.failing != (r.last.err != nil) {
		err := r.last.err
		r.telling, r.failing = true, err != nil
		r.mu.Unlock()
		r.failed(err)
		r.mu.Lock()
		r.telling = false
	}
}

// close ends a reading that goes on and waits for it. No other one begins.
func (r *readings) close() {
	r.mu.Lock()
	r.closed = true
	if r.cancel != nil {
		r.cancel()
	}
	r.mu.Unlock()
	r.reader.Wait()
}
