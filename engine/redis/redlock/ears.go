package redlock

import (
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/joined"
	"leasehold/internal/boottime"
)

// waiting are the claims that wait. In a layout of which other programs tell
// releases on a channel of each lock they are also known by it.
type waiting struct {
	joined.Map[request]
	ears ears
}

// Put remembers a claim that waits, and has its channel listened to.
func (w *waiting) Put(id engine.ID, q request, ttl time.Duration) {
	w.Map.Put(id, q, ttl)
	w.ears.notification(id, q.Name, ttl, true)
}

// Expect records a claim that may have to wait, before it asks: where its channel is
// listened to, a release that comes right after the answer "taken" must find it.
func (w *waiting) Expect(id engine.ID, name string, ttl time.Duration) {
	w.ears.notification(id, name, ttl, false)
}

// Drop forgets it.
func (w *waiting) Drop(id engine.ID) {
	w.Map.Drop(id)
	w.ears.forget(id)
}

// linger is for how long a channel is listened to after the last claim has waited on
// it: who waits again and again finds it listened to.
const linger = 2 * time.Second

// ears are the channels on which claims that wait hear of releases by other programs.
type ears struct {
	layout Layout
	more   []chan struct{} // for each master: a channel is wanted

	mu       sync.Mutex
	names    map[engine.ID]string // of the claims that are known
	channels map[string]*ear
}

// ear is one channel. Names that differ in their braces alone share one, as in
// Redisson.
type ear struct {
	waiting map[engine.ID]time.Duration // until when, by boottime
	wanted  bool                        // one of them was refused
	last    time.Duration               // when one was known last
}

// open readies them for so many masters.
func (e *ears) open(l Layout, masters int) {
	e.layout, e.names, e.channels = l, map[engine.ID]string{}, map[string]*ear{}
	for range masters {
		e.more = append(e.more, make(chan struct{}, 1))
	}
}

func (e *ears) notification(id engine.ID, name string, ttl time.Duration, refused bool) {
	channel := e.layout.channel(name)
	if channel == "" {
		return
	}
	now := boottime.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	on := e.channels[channel]
	if on == nil {
		on = &ear{waiting: map[engine.ID]time.Duration{}}
		e.channels[channel] = on
	}
	e.names[id] = name
	on.waiting[id], on.last = max(on.waiting[id], now+ttl), now
	if refused && !on.wanted {
		on.wanted = true
		for _, more := range e.more {
			select {
			case more <- struct{}{}:
			default:
			}
		}
	}
}

func (e *ears) forget(id engine.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	name, ok := e.names[id]
	if !ok {
		return
	}
	delete(e.names, id)
	channel := e.layout.channel(name)
	on := e.channels[channel]
	delete(on.waiting, id)
	on.last = boottime.Now()
	if len(on.waiting) == 0 && !on.wanted {
		delete(e.channels, channel)
	}
}

// listening: this client is one of those who listen to the channel of a name, for
// what a script counts.
func (e *ears) listening(name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if on := e.channels[e.layout.channel(name)]; on != nil && on.wanted {
		return "1"
	}
	return "0"
}

// on are the claims that wait for a message of a channel.
func (e *ears) on(channel string) (cs []engine.Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if on := e.channels[channel]; on != nil {
		for id := range on.waiting {
			cs = append(cs, engine.Claim{Name: e.names[id], ID: id, Permits: engine.Max, Limit: engine.Max, State: engine.Waiting})
		}
	}
	return cs
}

// changes are the channels to listen to from now on, and those to leave, for who
// listens to some.
func (e *ears) changes(listens map[string]bool) (more, less []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for channel, on := range e.channels {
		if on.wanted && !listens[channel] {
			more = append(more, channel)
		}
	}
	for channel := range listens {
		if on := e.channels[channel]; on == nil || !on.wanted {
			less = append(less, channel)
		}
	}
	return more, less
}

// prune takes out what nobody has waited on for a while.
func (e *ears) prune() {
	now := boottime.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for channel, on := range e.channels {
		for id, until := range on.waiting {
			if until < now {
				delete(on.waiting, id)
				delete(e.names, id)
			}
		}
		if len(on.waiting) == 0 && now-on.last > linger {
			delete(e.channels, channel)
		}
	}
}
