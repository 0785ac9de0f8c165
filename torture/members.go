package torture

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"leasehold/internal/child"
	"leasehold/torture/history"
)

// role tells a copy of the program that it is one of torture's, and which.
const role = "LEASEHOLD_TORTURE"

// The roles.
const (
	roleClient = "client"
	roleHog    = "hog"
)

// client is a client process as the witness sees it.
type client struct {
	w       *witness
	name    string
	process *child.Process
	ready   chan struct{} // closed when it begins

	// Under w.mu.
	ending bool // it is killed, or was told to end
	marks  map[int64]*entry
	calls  map[int64]history.Event // under way
	holds  map[int64]string        // the name of each acquisition that has not ended
	pings  map[int64]chan struct{}
	pinged int64
}

// startClient starts a client and waits until it has opened the engine.
func (w *witness) startClient(ctx context.Context, j job) (_ *client, err error) {
	if w.groups != nil {
		if j.Group, err = w.groups.add(j.Client); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				w.groups.remove(j.Client)
			}
		}()
	}
	c := &client{
		w: w, name: j.Client, ready: make(chan struct{}),
		marks: map[int64]*entry{}, calls: map[int64]history.Event{}, holds: map[int64]string{}, pings: map[int64]chan struct{}{},
	}
	// It says nothing before it has its job, which comes after process is set.
	if c.process, err = child.Start(nil, []string{role + "=" + roleClient}, func(line string) { w.heard(c, line) }); err != nil {
		return nil, err
	}
	c.tell(told{Job: &j})
	select {
	case <-c.ready:
		return c, nil
	case <-c.process.Ended():
		err = fmt.Errorf("client %s: %w", c.name, orEnded(c.process.Wait()))
	case <-ctx.Done():
		c.process.Kill()
		err = context.Cause(ctx)
	}
	select {
	case <-c.ready: // at the same moment
		w.gone(c)
	default:
	}
	return nil, err
}

// orEnded is err, or that a process ended for no reason.
func orEnded(err error) error {
	if err == nil {
		return errors.New("it ended")
	}
	return err
}

// tell writes to the client. One that was killed hears nothing.
func (c *client) tell(t told) {
	if text, err := json.Marshal(t); err == nil {
		_ = c.process.Say(string(text))
	}
}

// gone records the end of a client whose process has ended.
func (w *witness) gone(c *client) {
	err := c.process.Wait()
	if w.groups != nil {
		w.groups.remove(c.name)
	}
	w.bury(c, err)
}

// bury forgets a client: what it did not confirm is no mark.
func (w *witness) bury(c *client, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.clients, c.name)
	for _, x := range c.marks {
		x.open, x.dropped = false, true
	}
	e := history.Event{Kind: history.Exit, Client: c.name}
	if err != nil {
		e.Error = err.Error()
	}
	w.recordLocked(e, false)
	w.flushLocked()
}

// keep keeps one client running, each with a name of its own, until ctx ends. Then it
// tells the last one to end, and waits for that for as long as patience. It calls begun when
// the first one runs, or cannot. Whoever cannot begin later is missing: see place.
func (w *witness) keep(ctx context.Context, next func() job, begun func(), patience time.Duration) error {
	p := w.place()
	for first := true; ; first = false {
		c, err := w.startClient(ctx, next())
		if first {
			begun()
		}
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case first && err != nil:
			return err
		case err != nil:
			w.fill(p, false, err)
			wait(ctx, again) // a fault keeps it from the engine
			continue
		}
		w.fill(p, true, nil)
		select {
		case <-c.process.Ended():
			w.fill(p, false, nil)
			w.gone(c)
		case <-ctx.Done():
			return w.end(c, patience)
		}
		w.mu.Lock()
		killed := c.ending
		w.mu.Unlock()
		if !killed {
			return fmt.Errorf("client %s ended by itself: %w", c.name, orEnded(c.process.Wait()))
		}
	}
}

// again is the pause before another client is started in the place of one that failed.
const again = 200 * time.Millisecond

// end has a client end.
func (w *witness) end(c *client, patience time.Duration) error {
	w.mu.Lock()
	c.ending = true
	w.mu.Unlock()
	c.tell(told{End: true})
	late := time.NewTimer(patience)
	defer late.Stop()
	var err error
	select {
	case <-c.process.Ended():
	case <-late.C:
		c.process.Kill()
		err = fmt.Errorf("client %s did not end within %v: it was killed", c.name, patience)
	}
	w.gone(c)
	return err
}

// ping asks the client for an answer; the channel is closed when it comes.
func (c *client) ping() <-chan struct{} {
	pong := make(chan struct{})
	c.w.mu.Lock()
	c.pinged++
	n := c.pinged
	c.pings[n] = pong
	c.w.mu.Unlock()
	c.tell(told{Ping: n})
	return pong
}

// busy is how many leases and calls of the client a fault would hit now.
func (c *client) busy() (holds, calls int) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return len(c.holds), len(c.calls)
}

// running is the clients that are neither killed nor told to end, by name.
func (w *witness) running() []*client {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.SortedFunc(maps.Values(w.clients), func(a, b *client) int {
		return cmp.Or(cmp.Compare(len(a.name), len(b.name)), cmp.Compare(a.name, b.name))
	})
	return slices.DeleteFunc(all, func(c *client) bool { return c.ending })
}
