package redlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
)

// An acquisition has two phases, so that its ticket is above all that were given
// before, whichever majorities gave them.
//
//	1  every master: take the lock if it is free or mine, return the counter c
//	   S = those that said mine, a majority;  t = 1 + max c (see near)
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

// request is what a claim asks for.
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
	ours    bool          // its end will be told
	theirs  bool          // by another program
	wanted  bool          // of mine: it is seen that somebody else waits
	clock   time.Duration // the master's, less boottime
}

// try is one acquisition that is under way.
type try struct {
	e        *Engine
	r        *request
	number   uint64
	keys     []string
	start    time.Duration
	received chan *ballot  // room for all
	over     chan struct{} // closed when it has failed

	mu       sync.Mutex
	notified sync.Cond // a master has answered
	ballots  []*ballot // by master; nil: not yet
	owed     int       // that have not answered
}

// tally is what the ballots of a try add up to.
type tally struct {
	all          []ballot // those that answered, whatever they said
	mine, others int
	revoked      int
	wanted       bool           // one of mine says that somebody else waits
	stamps       map[uint64]int // how many gave which ticket
}

func (t *tally) add(b ballot) {
	t.all = append(t.all, b)
	switch {
	case b.err != nil:
	case b.state == engine.Held:
		t.mine++
		t.wanted = t.wanted || b.wanted
		if b.stamp > 0 {
			t.stamps[b.stamp]++
		}
	case b.state == engine.Gone:
		t.revoked++
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

// try takes the lock if a majority of the masters lets it, within the claim's lifetime,
// in which it must also be granted.
func (e *Engine) try(ctx context.Context, r *request) (engine.Claim, error) {
	t := &try{
		e: e, r: r, number: e.tries.Add(1), keys: e.keys(r.Name),
		start: boottime.Now(), received: make(chan *ballot, len(e.masters)), over: make(chan struct{}),
		ballots: make([]*ballot, len(e.masters)), owed: len(e.masters),
	}
	t.notified.L = &t.mu
	e.late.add(t)
	call := t.joining()
	timeout := e.opts.timeout(r.WaitTTL)
	for i, m := range e.masters {
		before := m.releases.before(t.keys[0])
		e.spawn(func() { t.ask(i, m, call, before, timeout) })
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	ballots, err := t.collect(ctx, timer.C)
	if err != nil {
		t.giveUp()
		return engine.Claim{}, err
	}
	c, err := t.decide(ctx, &ballots)
	// Where it was to replace a claim and failed, that may have given its place to
	// this one, which is all that its caller has. It is asked for again, or left.
	mayReplace := err != nil && r.Replaces != engine.ID{}
	switch {
	case c.State == engine.Held:
		e.complete(t, c)
	case !mayReplace:
		t.giveUp()
	}
	return c, err
}

// joining is the call of phase 1, without what differs between masters: see ask.
func (t *try) joining() redisconn.Call {
	replaces, channel := "", t.e.channel
	if t.r.Replaces != (engine.ID{}) {
		replaces = t.r.Replaces.Secret()
	}
	if t.r.NoWait {
		channel = ""
	}
	return redisconn.Call{Keys: t.keys, Args: []string{
		t.r.ID.Secret(), parts.Millis(t.r.WaitTTL), t.r.Owner.Text(), replaces,
		decimal(t.number), decimal(t.e.clock.now(t.start)), channel, decimal(t.r.began),
	}}
}

// ask has one master vote, however long that takes: who is late must give up what
// it granted to nobody.
func (t *try) ask(i int, m *master, call redisconn.Call, before []chan struct{}, patience time.Duration) {
	b := &ballot{master: i}
	var answers []redisconn.Answer
	if t.await(before, patience) {
		call.Args = append(slices.Clip(call.Args), parts.Flag(t.e.hears(m, t.r.Name))) // other masters have call too
		answers, b.err = m.vote(t.e.life, t.e.scripts.join, []redisconn.Call{call})
	} else {
		b.err = errors.New("it has not said yet that it gave up what was left there before")
	}
	if b.err == nil {
		b.sent, b.err = true, explain(b.read(answers[0]), t.keys)
	}
	t.answered(b)
	t.received <- b
}

// read takes in what join.lua answers.
func (b *ballot) read(a redisconn.Answer) error {
	v, err := a.AsIntSlice()
	if err != nil {
		return err
	}
	if len(v) != 6 {
		return fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %d values", len(v))
	}
	b.state = engine.State(v[0])
	b.left = lifetime(v[3])
	b.clock = time.Duration(v[4])*time.Microsecond - boottime.Now()
	if b.state == engine.Waiting {
		b.ours, b.theirs = v[1] >= 1, v[1] == 2
	} else {
		b.stamp, b.counter, b.wanted = uint64(v[1]), uint64(v[2]), v[5] == 1
	}
	return nil
}

// collect waits until it is known what a majority says, or each master has had its
// time.
func (t *try) collect(ctx context.Context, late <-chan time.Time) (tally, error) {
	all := tally{stamps: map[uint64]int{}}
	majority := t.e.majority
	err := receive(ctx, t.e, t.received, late, func(b *ballot) bool {
		all.add(*b)
		owed := cap(t.received) - len(all.all)
		// Or it cannot be had, and not because somebody is silent.
		return all.stamped(majority) > 0 || all.mine+owed < majority && all.mine+all.others >= majority
	})
	return all, err
}

// decide says what came of it, and goes through phase 2 if that is needed.
func (t *try) decide(ctx context.Context, all *tally) (engine.Claim, error) {
	e, ttl := t.e, t.r.WaitTTL
	e.clock.learn(all.all, e.majority)
	c := engine.Claim{Name: t.r.Name, ID: t.r.ID, Permits: engine.Max, Limit: engine.Max, State: engine.Waiting, TTL: ttl}
	switch {
	case all.mine >= e.majority:
		ticket := all.stamped(e.majority)
		if ticket == 0 {
			var err error
			if ticket, err = t.stamp(ctx, all); err != nil {
				return engine.Claim{}, err
			}
		}
		if ticket == 0 {
			break // somebody else was given more meanwhile, so these masters are no longer ours
		}
		if took := boottime.Now() - t.start; took >= ttl-drift(ttl) {
			return engine.Claim{}, fmt.Errorf("redlock: it took %v to ask the masters, too much of a TTL of %v: use a longer TTL", took, ttl)
		}
		c.State, c.Ticket, c.Contended, c.TTL = engine.Held, ticket, all.wanted, agreed(all.lefts(), e.majority)
		return c, nil
	case all.mine+all.others < e.majority:
		return engine.Claim{}, e.unavailable(all.all)
	case all.revoked > 0:
		c.State, c.Revoked, c.TTL = engine.Gone, true, 0
		return c, nil
	}
	c.PollAfter = t.pause(all)
	return c, nil
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

// lifetime is what PTTL says of a key: below 0 is none. Other programs' keys may have
// one of thousands of years.
func lifetime(ms int64) time.Duration {
	return time.Duration(max(-1, min(ms, math.MaxInt64/int64(time.Millisecond)))) * time.Millisecond
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
