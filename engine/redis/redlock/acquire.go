package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
	"leasehold/internal/boottime"
)

// An acquisition has two phases, so that its ticket is above all that were given
// before, whichever majorities gave them.
//
//	1  every master: take the lock if it is free or mine, return the counter c
//	   S = those that said mine, a majority;  t = 1 + max c
//	2  of S only: if the owner is me and the counter < t, the counter = t
//	   granted with t if a majority of S did so
//
// Two majorities share a master. There the later claim finds the counter at t or
// above, whatever became of the lock's key, and can be stamped only with more. So
// what makes it sound is the second step, and it does not matter where t came
// from. Hence phase 1 carries a proposal: if it takes the lock and the counter is
// below the proposal, both steps are done in one. If a majority did so with the
// same proposal, that is phase 2 answered, and the claim is granted after one
// round trip; if not, phase 2 follows with what was learned.
//
// A proposal is the time of the masters' clocks, as this client knows them from
// their answers: what is above the counter where nobody has held for a while, and
// goes on rising when the counters are forgotten.

// request is what a claim asks for at every try.
type request struct {
	engine.Request
	began uint64 // when it first asked, by the masters' clocks in microseconds
}

// ballot is what one master answered to one try.
type ballot struct {
	master  int
	sent    bool // it was asked
	err     error
	state   engine.State
	stamp   uint64 // of mine: the ticket given here, or 0
	counter uint64
	left    time.Duration // of the lock's expiry; below 0: none
	ours    bool          // who holds is a leasehold
	clock   time.Duration // the master's, less boottime
}

// try is one acquisition that is under way.
type try struct {
	e      *Engine
	r      *request
	number uint64
	keys   []string
	start  time.Duration
	heard  chan ballot // room for all

	mu   sync.Mutex
	over bool // given up, or left: whatever answers from now on is left there
	kept bool // granted, or may be
	owed int  // masters that have not answered
}

// tally is what the ballots of a try add up to.
type tally struct {
	all          []ballot // those that answered, whatever they said
	mine, others int
	evicted      int
	stamps       map[uint64]int // how many gave which ticket
}

func (t *tally) add(b ballot) {
	t.all = append(t.all, b)
	switch {
	case b.err != nil:
	case b.state == engine.Held:
		t.mine++
		if b.stamp > 0 {
			t.stamps[b.stamp]++
		}
	case b.state == engine.Gone:
		t.evicted++
		t.others++
	default:
		t.others++
	}
}

// stamped is a ticket that so many gave, or 0.
func (t *tally) stamped(majority int) uint64 {
	for ticket, n := range t.stamps {
		if n >= majority {
			return ticket
		}
	}
	return 0
}

// try takes the lock if a majority of the masters lets it, within ttl, in which
// it must also be granted.
func (e *Engine) try(ctx context.Context, r *request, ttl time.Duration) (engine.Claim, error) {
	t := &try{
		e: e, r: r, number: e.tries.Add(1), keys: e.keys(r.Name),
		start: boottime.Now(), heard: make(chan ballot, len(e.masters)), owed: len(e.masters),
	}
	e.late.add(t) // so that Leave finds it
	call := t.joining(ttl)
	for i, m := range e.masters {
		e.spawn(func() { t.ask(i, m, call) })
	}
	timer := time.NewTimer(e.opts.timeout(ttl))
	defer timer.Stop()
	ballots, err := t.collect(ctx, timer.C)
	if err != nil {
		t.giveUp(&ballots)
		return engine.Claim{}, err
	}
	c, err := t.decide(ctx, &ballots, ttl)
	switch {
	case err == nil && c.State == engine.Held:
		t.keep()
	case err != nil && r.Replaces != engine.ID{}:
		// The claim it replaces may have given its place to this one, so this
		// one is all that its caller has. It is asked for again, or left.
		t.keep()
	default:
		t.giveUp(&ballots)
	}
	return c, err
}

// joining is the call of phase 1.
func (t *try) joining(ttl time.Duration) wire.Call {
	replaces, channel := "", t.e.channel
	if t.r.Replaces != (engine.ID{}) {
		replaces = t.r.Replaces.Secret()
	}
	if t.r.NoWait {
		channel = ""
	}
	return wire.Call{Keys: t.keys, Args: []string{
		"", t.r.ID.Secret(), millis(ttl), t.r.Owner.Text(), replaces,
		decimal(t.number), decimal(t.e.clock.now(t.start)), channel, decimal(t.r.began),
	}}
}

// ask has one master vote, however long that takes: who is late must give up what
// it granted to nobody.
func (t *try) ask(i int, m *master, call wire.Call) {
	call.Args = slices.Clone(call.Args)
	b := ballot{master: i}
	answers, err := m.vote(t.e.life, t.e, t.e.scripts.join, []wire.Call{call})
	if b.err = err; err == nil {
		b.sent, b.err = true, wire.Explain(b.read(answers[0]), t.keys[0])
	}
	t.mu.Lock()
	over := t.over
	if t.owed--; t.owed == 0 && t.kept {
		t.e.late.forget(t)
	}
	if !over {
		t.heard <- b // within the lock: who gives up finds all that is not theirs to leave
	}
	t.mu.Unlock()
	if over && b.mayStand() {
		t.leave(m)
	}
}

// read takes in what join.lua answers.
func (b *ballot) read(a wire.Answer) error {
	v, err := a.AsIntSlice()
	if err != nil {
		return err
	}
	if len(v) != 5 {
		return fmt.Errorf("not an answer of ours: %d values", len(v))
	}
	b.state = engine.State(v[0])
	b.left = time.Duration(v[3]) * time.Millisecond
	b.clock = time.Duration(v[4])*time.Microsecond - boottime.Now()
	if b.state == engine.Waiting {
		b.ours = v[1] == 1
	} else {
		b.stamp, b.counter = uint64(v[1]), uint64(v[2])
	}
	return nil
}

// mayStand: the lock may have been taken there, though it was not counted.
func (b *ballot) mayStand() bool {
	return b.sent && (b.err != nil || b.state == engine.Held)
}

// collect waits until it is known what a majority says, or each master has had its
// time.
func (t *try) collect(ctx context.Context, late <-chan time.Time) (tally, error) {
	all := tally{stamps: map[uint64]int{}}
	n, majority := len(t.e.masters), t.e.majority
	for len(all.all) < n {
		select {
		case b := <-t.heard:
			all.add(b)
		case <-late:
			return all, nil
		case <-ctx.Done():
			return all, ctx.Err()
		case <-t.e.life.Done():
			return all, engine.ErrClosed
		}
		owed := n - len(all.all)
		switch {
		case all.stamped(majority) > 0:
			return all, nil
		case all.mine+owed < majority && all.mine+all.others >= majority:
			return all, nil // it cannot be had, and not because somebody is silent
		}
	}
	return all, nil
}

// decide says what came of it, and goes through phase 2 if that is needed.
func (t *try) decide(ctx context.Context, all *tally, ttl time.Duration) (engine.Claim, error) {
	e := t.e
	e.clock.learn(all.all)
	c := engine.Claim{Name: t.r.Name, ID: t.r.ID, Units: engine.Max, Limit: engine.Max, State: engine.Waiting, TTL: ttl}
	switch {
	case all.mine >= e.majority:
		ticket := all.stamped(e.majority)
		if ticket == 0 {
			var err error
			if ticket, err = t.stamp(ctx, all, ttl); err != nil {
				return engine.Claim{}, err
			}
		}
		if ticket == 0 {
			break // somebody else was given more meanwhile, so these masters are no longer ours
		}
		if took := boottime.Now() - t.start; took >= ttl-drift(ttl) {
			return engine.Claim{}, fmt.Errorf("redlock: it took %v to ask the masters, too much of a TTL of %v", took, ttl)
		}
		c.State, c.Ticket, c.TTL = engine.Held, ticket, agreed(all.lefts(), e.majority)
		return c, nil
	case all.mine+all.others < e.majority:
		return engine.Claim{}, e.unavailable(all.all)
	case all.evicted > 0:
		c.State, c.Evicted, c.TTL = engine.Gone, true, 0
		return c, nil
	}
	c.Look = t.pause(all)
	return c, nil
}

// stamp is phase 2: 0 and no error if a majority of those that said mine does not
// have it so.
func (t *try) stamp(ctx context.Context, all *tally, ttl time.Duration) (uint64, error) {
	e := t.e
	ticket := e.clock.now(boottime.Now())
	var ours []int
	for _, b := range all.all {
		if b.err == nil && b.state == engine.Held {
			ours = append(ours, b.master)
			ticket = max(ticket, b.counter+1)
		}
	}
	if ticket > engine.MaxTicket {
		return 0, engine.Refuse("the next ticket is above %d: the clocks of these masters are wrong", uint64(engine.MaxTicket))
	}
	type answer struct {
		master int
		yes    bool
		err    error
	}
	answers := make(chan answer, len(ours))
	for _, i := range ours {
		e.spawn(func() {
			got := answer{master: i}
			var as []wire.Answer
			if as, got.err = e.masters[i].vote(e.life, e, e.scripts.stamp, []wire.Call{{
				Keys: t.keys[:2], Args: []string{"", t.r.ID.Secret(), decimal(ticket)},
			}}); got.err == nil {
				var n int64
				n, got.err = as[0].AsInt64()
				got.yes = n == 1
			}
			answers <- got
		})
	}
	timer := time.NewTimer(e.opts.timeout(ttl))
	defer timer.Stop()
	yes, owed := 0, len(ours)
	var failed []ballot
	for yes < e.majority && yes+owed >= e.majority {
		select {
		case a := <-answers:
			owed--
			switch {
			case a.err != nil:
				failed = append(failed, ballot{master: a.master, err: a.err})
			case a.yes:
				yes++
			}
		case <-timer.C:
			return 0, e.unavailable(failed)
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-e.life.Done():
			return 0, engine.ErrClosed
		}
	}
	switch {
	case yes >= e.majority:
		return ticket, nil
	case len(failed) > 0:
		return 0, e.unavailable(failed)
	}
	return 0, nil
}

// lefts are the lifetimes that the masters granted.
func (t *tally) lefts() (lefts []time.Duration) {
	for _, b := range t.all {
		if b.err == nil && b.state == engine.Held {
			lefts = append(lefts, b.left)
		}
	}
	return lefts
}

// agreed is the longest lifetime that a majority granted.
func agreed(lefts []time.Duration, majority int) time.Duration {
	slices.Sort(lefts)
	return lefts[len(lefts)-majority]
}

// Pauses of a claim that waits. One that a leasehold holds is announced when it is
// free, and these are the floor; other programs announce nothing.
const (
	leastFloor  = 700 * time.Millisecond
	floorSpread = 300 * time.Millisecond
	leastPoll   = 30 * time.Millisecond // between a third and all of what redsync waits
	pollSpread  = 60 * time.Millisecond
)

// pause is how long until the next try, by chance: whoever failed at the same time
// as others must not come again at the same time as they.
func (t *try) pause(all *tally) time.Duration {
	took := boottime.Now() - t.start
	again := took + rand.N(4*took) // longer than an acquisition takes
	if all.mine > 0 {
		return again // several tried at once, and nobody may have it
	}
	ours, free := 0, []time.Duration{}
	for _, b := range all.all {
		if b.err != nil {
			continue
		}
		if b.ours {
			ours++
		}
		if b.left >= 0 {
			free = append(free, b.left)
		}
	}
	look := leastPoll + rand.N(pollSpread)
	if ours >= t.e.majority {
		look = leastFloor + rand.N(floorSpread)
	}
	if slices.Sort(free); len(free) >= t.e.majority {
		look = min(look, free[t.e.majority-1]+time.Millisecond+again)
	}
	return look
}

// keep lets the masters that have not answered grant it late. Leave tells them
// otherwise.
func (t *try) keep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept = true; t.owed == 0 {
		t.e.late.forget(t)
	}
}

// giveUp leaves everywhere, also where the lock only seems not to have been taken,
// and waits for that as long as for an acquisition: what is left standing is in
// the way of others. A master that has not answered yet is told when it does
// (see ask): before, it could be told before it takes the lock.
func (t *try) giveUp(all *tally) {
	t.e.late.forget(t)
	t.mu.Lock()
	t.over = true
	for len(t.heard) > 0 {
		all.add(<-t.heard)
	}
	t.mu.Unlock()
	var left sync.WaitGroup
	for _, b := range all.all {
		if b.mayStand() {
			left.Add(1)
			t.e.spawn(func() {
				defer left.Done()
				t.leave(t.e.masters[b.master])
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

// leave gives up on one master what this try took there.
func (t *try) leave(m *master) {
	m.calls(t.e.life, true, t.e.scripts.leave, []wire.Call{{
		Keys: t.keys, Args: []string{t.r.ID.Secret(), decimal(t.number), "", t.r.Name},
	}})
}

// lateTries are those that are under way, or were granted, or may have been, before
// all masters answered.
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

// leave has whatever still answers to a claim leave it.
func (l *lateTries) leave(id engine.ID) {
	l.mu.Lock()
	t := l.m[id]
	delete(l.m, id)
	l.mu.Unlock()
	if t != nil {
		t.mu.Lock()
		t.over = true
		t.mu.Unlock()
	}
}

// millis rounds up: less than was asked for must not be granted.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
