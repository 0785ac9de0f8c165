package redlock

import (
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// What a try leaves behind. A master that answers after the try has ended may have
// taken the lock for it, and it must be told to give it up after it took it: sent
// at once, on another connection, the release could arrive before.

// answered records what a master said.
func (t *try) answered(b *ballot) {
	t.mu.Lock()
	t.ballots[b.master] = b
	t.owed--
	if t.owed == 0 {
		t.e.late.forget(t)
	}
	t.mu.Unlock()
	t.notified.Broadcast()
}

// ballot is what a master said, or nil.
func (t *try) ballot(master int) *ballot {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ballots[master]
}

// wait is ballot as soon as there is one.
func (t *try) wait(master int) *ballot {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.ballots[master] == nil {
		t.notified.Wait()
	}
	return t.ballots[master]
}

// giveUp leaves everywhere, also where the lock only seems not to have been taken,
// and waits for that as long as for an acquisition: what is left standing is in
// the way of others. Masters that have not answered are told when they do, and
// not waited for.
func (t *try) giveUp() {
	t.e.late.forget(t)
	close(t.over)
	var left sync.WaitGroup
	for i, m := range t.e.masters {
		switch b := t.ballot(i); {
		case b == nil:
			answered := m.releases.add(t.keys[0])
			t.e.spawn(func() {
				defer answered()
				t.leave(t.wait(i))
			})
		case b.mayStand():
			answered := m.releases.add(t.keys[0])
			left.Add(1)
			t.e.spawn(func() {
				defer left.Done()
				defer answered()
				t.leave(b)
			})
		}
	}
	done := make(chan struct{})
	go func() {
		left.Wait()
		close(done)
	}()
	timer := time.NewTimer(t.e.opts.timeout(engine.MinTTL))
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// mayStand: the lock may have been taken there, though it was not counted.
func (b *ballot) mayStand() bool {
	return b.sent && (b.err != nil || b.state == engine.Held)
}

// leave gives up what this try took where this was said.
func (t *try) leave(b *ballot) {
	if !b.mayStand() {
		return
	}
	t.e.masters[b.master].calls(t.e.life, true, t.e.scripts.leave, []redisconn.Call{{
		Keys: t.keys, Args: []string{t.r.ID.Secret(), decimal(t.number), "", t.r.Name},
	}})
}

// lateTries are those to which a master still owes an answer, so that Leave finds
// them: it tells each master after that has answered.
type lateTries struct {
	mu sync.Mutex
	m  map[engine.ID]*try
}

func (l *lateTries) add(t *try) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m = map[engine.ID]*try{}
	}
	l.m[t.r.ID] = t
}

func (l *lateTries) forget(t *try) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m[t.r.ID] == t {
		delete(l.m, t.r.ID)
	}
}

// of are those of some claims.
func (l *lateTries) of(cs []engine.Claim) (all []*try) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cs {
		if t := l.m[c.ID]; t != nil {
			all = append(all, t)
		}
	}
	return all
}
