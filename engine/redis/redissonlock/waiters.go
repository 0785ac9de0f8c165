package redissonlock

import (
	"slices"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// waiter is a claim that waits. Redis knows nothing of it.
type waiter struct {
	request engine.Request
	channel string
	until   time.Duration // its deadline, by boottime
	refused bool          // a call has said that it waits; before, it may hold at once
	left    bool          // nothing of it is tried any more
}

func (w *waiter) live() bool { return w.until > boottime.Now() }

// waiters are the claims that wait, and the channels on which they are told of
// releases. The zero value is not ready: see newWaiters.
type waiters struct {
	more chan struct{} // a channel is wanted that is not listened to

	mu       sync.Mutex
	byID     map[engine.ID]*waiter
	channels map[string]*channel
	sweep    int // size at which to look for expired ones
}

// channel is one on which releases are told. Names that differ in their braces
// alone share one, as in Redisson.
type channel struct {
	waiting []engine.ID
	asked   bool // Watch subscribes to it, or has
	idle    int  // times that prune found nobody waiting
}

func newWaiters() waiters {
	return waiters{more: make(chan struct{}, 1), byID: map[engine.ID]*waiter{}, channels: map[string]*channel{}, sweep: 1024}
}

// expect records a claim that may have to wait, before it asks Redis: where its
// channel is listened to, a release that comes right after the answer "taken" must
// find it.
func (w *waiters) expect(r engine.Request, on string, ttl time.Duration) {
	now := boottime.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.byID[r.ID]; known != nil {
		known.until = max(known.until, now+ttl)
		return
	}
	if len(w.byID) >= w.sweep {
		for id, known := range w.byID {
			if known.until < now {
				w.remove(id)
			}
		}
		w.sweep = max(1024, 2*len(w.byID))
	}
	w.byID[r.ID] = &waiter{request: r, channel: on, until: now + ttl}
	c := w.channels[on]
	if c == nil {
		c = &channel{}
		w.channels[on] = c
	}
	c.waiting = append(c.waiting, r.ID)
}

// waits records that the claim does wait, and has its channel listened to.
func (w *waiters) waits(id engine.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.byID[id]
	if known == nil {
		return
	}
	known.refused = true
	known.request.Replaces = engine.ID{} // done, whether that was held or waiting
	if !w.channels[known.channel].asked {
		w.signal()
	}
}

// extend moves the deadline of a claim that waits, and never earlier.
func (w *waiters) extend(id engine.ID, ttl time.Duration) {
	until := boottime.Now() + ttl
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.byID[id]; known != nil {
		known.until = max(known.until, until)
	}
}

func (w *waiters) signal() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

// get is a claim that waits.
func (w *waiters) get(id engine.ID) (waiter, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.byID[id]
	if known == nil || !known.refused {
		return waiter{}, false
	}
	return *known, true
}

// leave records that a claim is being left: it is not tried for any more.
func (w *waiters) leave(id engine.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.byID[id]; known != nil {
		known.left = true
	}
}

// forget forgets a claim, and reports whether it was being left.
func (w *waiters) forget(id engine.ID) (left bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.byID[id]
	w.remove(id)
	return known != nil && known.left
}

func (w *waiters) remove(id engine.ID) {
	known := w.byID[id]
	if known == nil {
		return
	}
	delete(w.byID, id)
	c := w.channels[known.channel]
	c.waiting = slices.DeleteFunc(c.waiting, func(other engine.ID) bool { return other == id })
	if len(c.waiting) == 0 && !c.asked {
		delete(w.channels, known.channel)
	}
}

// listening: this client is one of those who listen to a channel.
func (w *waiters) listening(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.channels[name]
	return c != nil && c.asked
}

// on are the claims that wait for a message of a channel.
func (w *waiters) on(name string) (cs []engine.Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.channels[name]
	if c == nil {
		return nil
	}
	for _, id := range c.waiting {
		r := &w.byID[id].request
		cs = append(cs, engine.Claim{Name: r.Name, ID: id, Permits: r.Permits, Limit: r.Limit, State: engine.Waiting})
	}
	return cs
}

// wanted are the channels to listen to from now on. Again: a connection begins,
// which listens to none.
func (w *waiters) wanted(again bool) (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, c := range w.channels {
		switch {
		case again && len(c.waiting) == 0:
			delete(w.channels, name)
		case again || !c.asked && w.refused(c):
			c.asked, c.idle = true, 0
			names = append(names, name)
		}
	}
	return names
}

func (w *waiters) refused(c *channel) bool {
	return slices.ContainsFunc(c.waiting, func(id engine.ID) bool { return w.byID[id].refused })
}

// prune takes out the channels that nobody has waited on since it was last
// called: whoever waits for a busy name again and again finds it listened to.
func (w *waiters) prune() (names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, c := range w.channels {
		if len(c.waiting) > 0 {
			c.idle = 0
		} else if c.idle++; c.idle > 1 {
			delete(w.channels, name)
			names = append(names, name)
		}
	}
	return names
}
