package leasehold

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"leasehold/engine"
)

const (
	// never is a time that does not come.
	never time.Duration = math.MaxInt64

	// batchSize is the most claims in one call.
	batchSize = 1000

	// attempts is how many Renews of one claim may be under way at once. A
	// reply may take as long as what was asked for; waiting for it would leave
	// no second chance, so the next attempt does not.
	attempts = 3

	// tick bounds the keeper's sleep while it has anything to keep: timers
	// stop while a machine is suspended, so the clock must be looked at.
	tick = time.Second
)

// keep is the one watchdog of a client: it renews every claim in batches, owns
// every deadline and cancels what is lost. It never calls the engine itself:
// an engine that hangs must not delay the loss of a lease.
func (k *core) keep() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	drift := k.drift()
	for kicked := false; ; {
		k.mu.Lock()
		if k.closed {
			k.unlock()
			return
		}
		now := k.now()
		if d := k.drift(); (d - drift).Abs() > tick {
			// Somebody stepped the wall clock, which an engine may go by.
			// That is a reason to renew now, never to lose.
			drift = d
			k.renewAll(func(cl *claim) bool { return true })
		}
		work := k.collect(now)
		wake := never
		if len(k.due) > 0 {
			wake = min(k.due[0].due, now+tick)
		}
		if kicked && k.asleep > now {
			// The claim that asked for this time may be gone. The next one will ask
			// for about the same, and one look in vain costs less than being woken
			// by each.
			wake = min(wake, k.asleep)
		}
		k.asleep = wake
		k.unlock()
		work.start(k)
		timer.Reset(max(0, wake-now))
		kicked = false
		select {
		case <-timer.C:
		case <-k.kick:
			kicked = true
		case <-k.life.Done():
			return
		}
	}
}

// wall is the time for people to read.
func (k *core) wall() time.Time { return time.Now() }

// drift is how far the wall clock is from the time elapsed.
func (k *core) drift() time.Duration {
	return time.Duration(time.Now().Round(0).UnixNano()) - k.now()
}

// work is what the keeper found due.
type work struct {
	joins  []*claim
	leaves []engine.Claim
	renews []renewals
}

// renewals is one call. It may take as long as the longest time that any of its
// claims was granted last: later no answer could help them.
type renewals struct {
	batch []engine.Renewal
	bound time.Duration
}

// start hands it out to goroutines.
func (w *work) start(k *core) {
	k.mu.Lock()
	defer k.unlock()
	for _, cl := range w.joins {
		k.spawn(func() { k.attempt(k.life, cl) })
	}
	for _, batch := range w.renews {
		k.spawn(func() { k.renew(batch.batch, batch.bound) })
	}
	for len(w.leaves) > 0 {
		n := min(len(w.leaves), batchSize)
		batch := w.leaves[:n]
		w.leaves = w.leaves[n:]
		k.spawn(func() { k.leave(batch) })
	}
}

// collect does what is due and returns the calls to make. Called with mu held.
func (k *core) collect(now time.Duration) (w work) {
	var next renewals
	for len(k.due) > 0 {
		cl := k.due[0]
		if cl.due > now && !(cl.due == cl.renewAt && cl.due <= now+cl.early()) {
			break
		}
		switch {
		case cl.leaving:
			cl.renewAt = now + backoff(int(cl.retries))
			cl.retries++
			if now > cl.leaveEnd {
				k.drop(cl) // it must have expired
				continue
			}
			w.leaves = append(w.leaves, engine.Claim{Name: cl.name(), ID: cl.req.ID})
		case cl.joining:
			cl.asking, cl.look = true, false
			w.joins = append(w.joins, cl)
		case cl.users > 0 && now >= cl.trustedUntil():
			k.lose(cl, ErrLost, now)
		case cl.users > 0 && cl.lock.MaxHold > 0 && now >= cl.heldAt+cl.lock.MaxHold:
			k.lose(cl, ErrMaxHold, now)
		case cl.keptTill != 0 && now >= cl.keptTill:
			k.giveBack(cl, now)
		default:
			want := cl.want(now)
			// A third of what is left of the last grant at most, or a call that
			// hangs would be the only one before the claim expires.
			cl.renewAt = now + min(want, cl.granted)/3
			if cl.inflight < attempts {
				cl.inflight++
				cl.look = false
				next.batch = append(next.batch, engine.Renewal{Name: cl.name(), ID: cl.req.ID, Want: want})
				next.bound = max(next.bound, min(want, max(cl.granted, cl.req.WaitTTL)))
			}
		}
		k.schedule(cl)
		if len(next.batch) == batchSize {
			w.renews = append(w.renews, next)
			next = renewals{}
		}
	}
	if len(next.batch) > 0 {
		w.renews = append(w.renews, next)
	}
	return w
}

// early is how much sooner than planned a claim is renewed so that many share
// one call.
func (cl *claim) early() time.Duration {
	if cl.leaving || cl.joining || cl.state != engine.Held || !cl.raised || cl.linger {
		return 0
	}
	// Always less than the third of a TTL until the next attempt, or collect
	// would find the same claim due for ever.
	return min((cl.renewAt-cl.proof)/8, min(cl.ttl(), cl.granted)/24)
}

// schedule puts a claim where the keeper finds it next. Called with mu held,
// after every change.
func (k *core) schedule(cl *claim) {
	due := never
	switch {
	case cl.dropped || cl.asking:
	case cl.leaving || cl.joining:
		due = cl.renewAt
	case cl.lost: // its Unlock goes on from there
	default:
		if !(cl.lock.NoRenew && cl.delivered && !cl.linger) {
			due = cl.renewAt
		}
		if cl.users > 0 {
			due = min(due, cl.trustedUntil())
			if cl.lock.MaxHold > 0 {
				due = min(due, cl.heldAt+cl.lock.MaxHold)
			}
		}
		if cl.keptTill != 0 {
			due = min(due, cl.keptTill)
		}
	}
	k.due.set(cl, due)
	if due < k.asleep {
		k.asleep = due
		select {
		case k.kick <- struct{}{}:
		default:
		}
	}
}

// renewNow has a claim renewed, or its Join tried again, as soon as possible. The
// answer of a call that is under way may be older than the reason to ask: it
// does not count as having looked (see pace).
func (k *core) renewNow(cl *claim, now time.Duration) {
	cl.renewAt, cl.look = now, true
	k.schedule(cl)
}

func (k *core) renewAll(which func(*claim) bool) {
	now := k.now()
	for _, cl := range k.claims {
		if !cl.leaving && which(cl) {
			k.renewNow(cl, now)
		}
	}
}

// needsRaise: leases that are never renewed, or whose holder may leave this
// process, begin with their full TTL.
func (k *core) needsRaise(cl *claim) bool {
	return (cl.lock.NoRenew || cl.req.Detached) && !cl.raised
}

// renew makes one call for many claims.
func (k *core) renew(batch []engine.Renewal, bound time.Duration) {
	ctx, cancel := context.WithTimeout(k.life, bound)
	defer cancel()
	s := k.now()
	got, err := k.eng.Renew(ctx, batch)
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return
	}
	k.heard(err)
	now := k.now()
	for i, c := range got {
		if cl := k.claims[c.ID]; cl != nil {
			if i >= len(batch) || batch[i].ID != c.ID {
				i = slices.IndexFunc(batch, func(r engine.Renewal) bool { return r.ID == c.ID })
			}
			if i >= 0 { // else nobody asked
				k.renewed(cl, s, now, batch[i].Want, c)
			}
		}
	}
	for _, r := range batch {
		cl := k.claims[r.ID]
		if cl == nil {
			continue
		}
		cl.inflight--
		if cl.proof < s && !cl.leaving && !cl.dropped {
			if cl.req.NoWait && !cl.delivered && !cl.joining {
				// One bounded try: it does not wait for the engine to come back.
				k.failClaim(cl, fmt.Errorf("%w: %w", ErrUnavailable, err))
				k.leaveLater(cl, now)
				continue
			}
			// Nothing learned: again soon, but no sooner than the engine can
			// recover from being asked.
			cl.renewAt = min(cl.renewAt, now+backoff(int(cl.retries)))
			cl.retries++
			k.schedule(cl)
		}
	}
}

// renewed takes in one answer. Called with mu held.
func (k *core) renewed(cl *claim, s, now, asked time.Duration, got engine.Claim) {
	if cl.leaving || cl.lost || cl.joining || cl.stale(got.Ticket) {
		return
	}
	// A lease whose time was up before the answer came has ended, whatever the
	// answer says: its holder may have been told so already.
	if k.expire(cl, now); cl.lost {
		return
	}
	if got.State == engine.Gone || cl.delivered && (got.Ticket > cl.ticket || got.State == engine.Waiting && s > cl.heldAt) {
		// A claim that was made anew is not the one the lease was made of. (An
		// answer that it waits may be older than the note that it holds, unless
		// the call began after that.)
		k.gone(cl, got, now)
		return
	}
	cl.learn(s, asked, got)
	if cl.linger {
		k.lingers(cl, s, min(asked, got.TTL))
		return
	}
	if got.State == engine.Held && asked >= cl.ttl() {
		cl.raised = true
	}
	k.pace(cl, s, now, got.Look)
	if cl.contended {
		k.contend(cl, cl.heard)
	}
	if cl.users > 0 {
		for l := cl.leases; l != nil && k.opts.Observer != nil; l = l.next {
			k.event(Event{Kind: EventRenewed, Name: l.name, Token: l.token, Units: cl.req.Units, Limit: cl.req.Limit, Held: now - l.heldAt})
		}
	}
	k.join(k.pump(cl.line, true, now))
}

// leave makes one call for many claims that are being given up.
func (k *core) leave(batch []engine.Claim) {
	ctx, cancel := context.WithTimeout(k.life, releaseBound)
	defer cancel()
	got, err := k.eng.Leave(ctx, batch)
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return
	}
	k.heard(err)
	for _, c := range got {
		cl := k.claims[c.ID]
		if cl == nil || cl.doubtful && c.State == engine.Gone && !c.Evicted {
			// A Join that was cancelled may be behind the Leave, on another
			// connection, and nobody would renew or leave what it makes: the
			// name would be taken for its WaitTTL. So it is left again.
			continue
		}
		k.drop(cl)
	}
	for _, q := range batch {
		if cl := k.claims[q.ID]; cl != nil {
			cl.line.ghost = q.ID // unclear: the next Join replaces it
		}
	}
}
