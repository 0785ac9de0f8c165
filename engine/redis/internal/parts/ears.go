package parts

import (
	"context"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
)

// Ears are the claims of an engine that may be waiting, and the channels on which other
// programs tell of a lock that it is free. It is no memory of who waits, by which
// anything is tried: a message, and a channel that has just begun, are good moments to
// try, and this says for whom.
type Ears struct {
	channel func(name string) string // of a lock; "": nobody tells

	mu            sync.Mutex
	claims        map[engine.ID]ear
	channels      map[string]*channel
	subscriptions map[chan struct{}]*redisconn.Client // each is told when a channel is wanted
	tuned         map[tuning]int                      // how many subscriptions a server may count on a channel
	sweep         int                                 // claims at which to look for those that are over
}

// ear is a claim that may be waiting.
type ear struct {
	name         string
	since, until time.Duration // by boottime
}

// channel is one on which releases are told. Names that differ in their braces alone
// share one, as in Redisson.
type channel struct {
	claims map[engine.ID]bool
	wanted bool          // one of them was refused: it is listened to
	last   time.Duration // when one was there last
}

// tuning is a channel of a server, or of one of several that are independent.
type tuning struct {
	client  *redisconn.Client
	channel string
}

// linger is for how long a channel is listened to at least after the last claim has
// waited on it: who waits again and again finds it listened to. It is not long: whoever
// holds takes those who listen for waiting, and gives up turns for them.
const linger = time.Second

// spare is for how long a claim is known beyond the TTL that it asked for, unless it holds
// or is left: who waits asks again every few seconds.
const spare = 10 * time.Second

// NewEars hear of locks by the channels that are said.
func NewEars(of func(name string) string) *Ears {
	return &Ears{channel: of, claims: map[engine.ID]ear{}, channels: map[string]*channel{}, subscriptions: map[chan struct{}]*redisconn.Client{}, tuned: map[tuning]int{}}
}

// Expect records a claim before it asks, and says since when it has been asking: where its
// channel is listened to, a release that comes right after the answer "taken" must find it.
func (e *Ears) Expect(id engine.ID, name string, ttl time.Duration) (since time.Duration) {
	now := boottime.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.sweep = max(e.sweep, 1024); len(e.claims) >= e.sweep {
		e.prune(now)
		e.sweep = 2 * len(e.claims)
	}
	known, ok := e.claims[id]
	if !ok {
		known = ear{name: name, since: now}
	}
	known.until = max(known.until, now+ttl+spare)
	e.claims[id] = known
	if on := e.channel(name); on != "" {
		c := e.channels[on]
		if c == nil {
			c = &channel{claims: map[engine.ID]bool{}}
			e.channels[on] = c
		}
		c.claims[id], c.last = true, now
	}
	return known.since
}

// Waits records that a claim was refused, and has its channel listened to.
func (e *Ears) Waits(id engine.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.channels[e.channel(e.claims[id].name)]
	if c == nil || c.wanted {
		return
	}
	c.wanted = true
	for more := range e.subscriptions {
		select {
		case more <- struct{}{}:
		default:
		}
	}
}

// Forget forgets a claim: it holds, or is gone.
func (e *Ears) Forget(id engine.ID) {
	now := boottime.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remove(id, now)
}

func (e *Ears) remove(id engine.ID, now time.Duration) {
	known, ok := e.claims[id]
	if !ok {
		return
	}
	delete(e.claims, id)
	on := e.channel(known.name)
	if c := e.channels[on]; c != nil {
		delete(c.claims, id)
		c.last = now
		if len(c.claims) == 0 && !c.wanted {
			delete(e.channels, on)
		}
	}
}

// Listening reports whether this client is one of those who listen for a lock on c's
// server. It is until that server has answered that it does not any more: a holder would
// take its own subscription for somebody else's. What other servers have answered does not
// count: one that stands still would hide who waits on all of them.
func (e *Ears) Listening(name string, c *redisconn.Client) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	on := e.channel(name)
	if e.tuned[tuning{c, on}] > 0 {
		return true
	}
	if known := e.channels[on]; known == nil || !known.wanted {
		return false
	}
	for _, client := range e.subscriptions {
		if client == c {
			return true
		}
	}
	return false
}

// On are the claims that may be waiting for a message of a channel.
func (e *Ears) On(channel string) (cs []engine.Claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.channels[channel]; c != nil {
		for id := range c.claims {
			cs = append(cs, engine.Claim{Name: e.claims[id].name, ID: id, State: engine.Waiting})
		}
	}
	return cs
}

// Listener is told what a subscription hears, from one goroutine.
type Listener struct {
	Began    func()                        // it listens to its own channel
	Notified func(message string)          // on that
	Free     func(channel, message string) // a lock may be free; message is empty when its channel has just begun
	Tuned    func(more, less []string)     // it listens to more channels from now on, and to some not any more
}

// Listen is one subscription: to a channel of its own, and to those of locks from soon
// after the first wait until a second or two after the last. It returns when the
// connection is lost, or ctx ends.
func (e *Ears) Listen(ctx context.Context, c *redisconn.Client, own string, l Listener) error {
	s, err := c.Listen(ctx, func(channel string) {
		if channel == own {
			l.Began()
		} else {
			l.Free(channel, "") // who has asked before it began may have missed a release
		}
	}, func(channel, message string) {
		if channel == own {
			l.Notified(message)
		} else {
			l.Free(channel, message)
		}
	})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Subscribe(ctx, own); err != nil {
		return err
	}
	more, listens := make(chan struct{}, 1), map[string]bool{}
	e.mu.Lock()
	e.subscriptions[more] = c
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.subscriptions, more)
		for channel := range listens {
			e.leave(tuning{c, channel})
		}
	}()
	tick := time.NewTicker(linger)
	defer tick.Stop()
	for {
		if err := e.tune(ctx, c, s, l, listens); err != nil {
			return err
		}
		select {
		case <-more:
		case <-tick.C:
			e.mu.Lock()
			e.prune(boottime.Now())
			e.mu.Unlock()
		case err := <-s.Lost():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tune has a connection of c listen to what is wanted.
func (e *Ears) tune(ctx context.Context, c *redisconn.Client, s *redisconn.Subscription, l Listener, listens map[string]bool) error {
	more, less := e.changes(listens)
	e.mu.Lock()
	for _, channel := range more {
		listens[channel] = true
		e.tuned[tuning{c, channel}]++
	}
	e.mu.Unlock()
	l.Tuned(more, less)
	if len(less) > 0 {
		if err := s.Unsubscribe(ctx, less...); err != nil {
			return err
		}
		e.mu.Lock()
		for _, channel := range less {
			delete(listens, channel)
			e.leave(tuning{c, channel})
		}
		e.mu.Unlock()
	}
	if len(more) > 0 {
		return s.Subscribe(ctx, more...)
	}
	return nil
}

// leave records that one subscription less listens to a channel.
func (e *Ears) leave(t tuning) {
	if e.tuned[t]--; e.tuned[t] == 0 {
		delete(e.tuned, t)
	}
}

// changes are the channels to listen to from now on, and those to leave, for who
// listens to some.
func (e *Ears) changes(listens map[string]bool) (more, less []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for channel, c := range e.channels {
		if c.wanted && !listens[channel] {
			more = append(more, channel)
		}
	}
	for channel := range listens {
		if c := e.channels[channel]; c == nil || !c.wanted {
			less = append(less, channel)
		}
	}
	return more, less
}

// prune forgets the claims that are over, and channels that nobody has waited on for a
// while.
func (e *Ears) prune(now time.Duration) {
	for id, known := range e.claims {
		if known.until < now {
			e.remove(id, now)
		}
	}
	for on, c := range e.channels {
		if len(c.claims) == 0 && now-c.last > linger {
			delete(e.channels, on)
		}
	}
}

// Teller tells an engine's Watch what changed: from one goroutine at a time, and nothing
// once it has ended.
type Teller struct {
	mu      sync.Mutex
	changed func(engine.Claim) // nil: it has ended
}

// NewTeller tells by changed.
func NewTeller(changed func(engine.Claim)) *Teller { return &Teller{changed: changed} }

// Notify passes on some claims.
func (t *Teller) Notify(cs ...engine.Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range cs {
		if t.changed != nil {
			t.changed(c)
		}
	}
}

// End ends it.
func (t *Teller) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed = nil
}
