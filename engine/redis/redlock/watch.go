package redlock

import (
	"context"
	"fmt"
	"sync"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// Watch implements [engine.Engine]. It subscribes on every master, once on each. A waiter
// that learns that a lock is free tries at once, and finds the other masters free too: the
// holder left all of them at the same moment.
//
// The subscription has begun when a majority is subscribed, and breaks when no majority is
// any more. A claim is held, left and revoked on a majority, so at least one subscribed
// master notifies. If Watch broke with each master, every waiting claim would poll
// whenever a minority flaps, for nothing. If it went on until the last master had gone, it
// would miss a release on the others. The next Watch subscribes again on a master that
// broke off. A master that was away at the opening joins when it is reachable.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t := parts.NewTeller(changed)
	defer t.End()
	l := &listening{majority: e.majority, began: func() { t.Notify(engine.Claim{}) }, broke: stop}
	there := make([]bool, len(e.masters))
	for i, m := range e.masters {
		if there[i] = m.there(); there[i] {
			l.open++
		}
	}
	var all sync.WaitGroup
	for i, m := range e.masters {
		all.Go(func() {
			if !there[i] {
				select {
				case <-m.opened:
					l.opened()
				case <-ctx.Done():
					return
				}
			}
			begun := false
			err := e.listen(ctx, m, t, func() { begun = true; l.begins() })
			l.ends(begun, m.says(err))
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// listening is which masters one Watch listens to.
type listening struct {
	majority int
	began    func()
	broke    context.CancelCauseFunc

	mu       sync.Mutex
	open     int // that may listen: they are there, and have not broken off
	listen   int // that do
	notified bool
}

// opened: a master is there that was away when Watch began.
func (l *listening) opened() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
}

func (l *listening) begins() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listen++; l.listen == l.majority && !l.notified {
		l.notified = true
		l.began()
	}
}

func (l *listening) ends(begun bool, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open--; begun {
		l.listen--
	}
	if l.open < l.majority || l.notified && l.listen < l.majority {
		l.broke(fmt.Errorf("redlock: the subscription ended: no majority of the masters is subscribed any more: %s", why))
	}
}

// listen is one subscription on one master.
func (e *Engine) listen(ctx context.Context, m *master, t *parts.Teller, began func()) error {
	return e.ears.Listen(ctx, m.client, e.channel, parts.Listener{
		Began: began,
		Notified: func(message string) {
			if c, ok := notification(message); ok {
				t.Notify(c)
			}
		},
		Free: func(channel, message string) {
			if message != ours { // of ours one at a time is told
				t.Notify(e.ears.On(channel)...)
			}
		},
		Tuned: func(_, _ []string) {},
	})
}

// hears reports whether a master may count this client among those who listen for a lock.
func (e *Engine) hears(m *master, name string) bool {
	m.mu.Lock()
	client := m.client
	m.mu.Unlock()
	return e.ears.Listening(name, client)
}

// audible refuses a user who may not tell other programs of a release, or not hear of
// theirs: every wait would last until somebody looks.
func (e *Engine) audible(c *redisconn.Client) error {
	channel := e.opts.Layout.channel("leasehold:nobody")
	if channel == "" {
		return nil
	}
	s, err := c.Listen(e.life, func(string) {}, func(string, string) {})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Subscribe(e.life, channel); err != nil {
		return err
	}
	return c.Publish(e.life, channel, ours)
}

// notification reads what wake.lua tells: a claim that may try.
func notification(message string) (c engine.Claim, ok bool) {
	const secret = 2 * len(c.ID)
	if len(message) <= secret {
		return c, false
	}
	id, err := engine.ParseID(message[:secret])
	return engine.Claim{Name: message[secret:], ID: id, State: engine.Waiting}, err == nil
}
