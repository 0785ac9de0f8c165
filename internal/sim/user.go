package sim

import (
	"context"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// user is a caller: it asks for a name, waits, holds, unlocks, and asks again.
type user struct {
	client *client
	own    int // the name that is its own, where each has one
	state  state
	turn   int // counts what it did, so that a plan of before does nothing

	lot    *lot
	at     int // in lot.waiting
	want   claims.Want
	caller *claims.Caller
	lease  *claims.Lease
	join   *call // in its goroutine
	hold   *hold
	asked  time.Duration // when it asked, in virtual time
	absent time.Duration // since when its client has no place in the queue; 0: it has one
	proven bool          // when it was unlocked, its hold was
}

type state uint8

const (
	away  state = iota
	comes       // its Enter waits for a Leave: see claims.Machine.ReleaseIdle
	waits
	holds
	unlocks
)

// hold is one lease as the world sees it.
type hold struct {
	user     *user
	lease    *claims.Lease
	token    uint64
	told     bool    // that it is lost
	asked    bool    // its Unlock asks the engine
	honest   bool    // and said that all was well
	overlaps []*hold // of others, that exclude it
}

func (u *user) begin() {
	u.rest()
	u.think()
}

// rest: it wants nothing.
func (u *user) rest() {
	if u.state != away {
		u.client.w.active--
	}
	u.leaveLot()
	u.state, u.caller, u.join, u.hold = away, nil, nil, nil
	u.turn++
}

func (u *user) later(d time.Duration, f func()) {
	turn := u.turn
	u.client.later(d, func() {
		if u.turn == turn {
			f()
		}
	})
}

func (u *user) think() {
	if w := u.client.w; !w.settling {
		u.later(upTo(u.client.habits, 2*w.Habits.Think), u.ask)
	}
}

// choose is the name and kind of the next lock. Half of all callers ask for one of
// the first few names. Each fourth name is a semaphore of three.
func (u *user) choose() (name int, want claims.Want) {
	w, r := u.client.w, u.client.habits
	want = claims.Want{Permits: engine.Max, Limit: engine.Max, TTL: w.TTL}
	name = u.own
	if !w.Habits.Own {
		if name = r.IntN(len(w.lots)); r.IntN(2) == 0 {
			name /= 16
		}
	}
	if w.Habits.Mixed {
		kind, option := r.IntN(4), r.IntN(16)
		switch {
		case name%4 == 3:
			want.Limit, want.Permits = 3, int32(1+kind%3)
		case kind == 0:
			want.Permits = 1
		}
		want.NoWait = option == 0 || option == 1
		want.NoRenew = option == 2
		if option == 3 {
			want.MaxHold = time.Second
		}
	}
	want.Name = w.lots[name].name
	return name, want
}

func (u *user) ask() {
	c, w := u.client, u.client.w
	if w.settling {
		return
	}
	name, want := u.choose()
	u.turn++
	w.active++
	u.lot, u.want, u.asked, u.absent = w.lots[name], want, w.now, 0
	u.lease = &claims.Lease{Tag: u}
	u.caller = &claims.Caller{Want: want, Lease: u.lease, Tag: u}
	u.state = waits
	w.note('e', c.number, uint64(name))
	if w.tell != nil {
		w.say("%v asks for %d of %d of %s", c, want.Permits, want.Limit, want.Name)
	}
	if w.Habits.Mixed && !want.NoWait && c.habits.IntN(8) == 0 {
		u.later(upTo(c.habits, w.TTL), u.giveUp)
	}
	if want.NoWait {
		c.machine.ReleaseIdle(c.now(), u.caller)
		c.carryOut(nil)
	}
	if u.state == waits {
		u.enter()
	}
}

func (u *user) enter() {
	c := u.client
	u.state = waits
	u.enterLot()
	if !c.machine.EnterBehind(u.caller) {
		c.machine.Enter(c.now(), u.caller)
	}
	c.carryOut(u)
}

// giveUp: its context ends. A Join that runs in its goroutine is cut short first.
func (u *user) giveUp() {
	c, turn := u.client, u.turn
	if u.state != waits {
		return
	}
	if q := u.join; q != nil {
		q.over = true
		c.answered(q, nil, context.Canceled)
	}
	if u.turn != turn || u.state != waits {
		return // answered meanwhile
	}
	if !c.machine.GiveUp(c.now(), u.caller) {
		c.w.fail(Asked, "a caller of %v waits, and GiveUp says that it was answered", c)
	}
	c.w.counts.GaveUp++
	c.w.say("a caller of %v gives %s up", c, u.want.Name)
	u.rest()
	c.carryOut(nil)
	u.think()
}

func (u *user) delivered(o *claims.Output) {
	c, w := u.client, u.client.w
	if u.state != waits || u.lease != o.Lease {
		w.fail(Asked, "a caller of %v is delivered what it does not wait for", c)
		return
	}
	u.turn++
	u.leaveLot()
	u.state = holds
	u.hold = &hold{user: u, lease: u.lease, token: u.lease.Token}
	w.note('g', c.number, u.lease.Token)
	if w.tell != nil {
		w.say("%v holds %s by ticket %s", c, u.want.Name, short(u.lease.Token>>engine.HandoffBits))
	}
	w.granted(u.hold, o.HandedOff)
	u.caller = nil
	switch hold := w.Habits.Hold; {
	case w.settling:
		u.later(time.Millisecond, u.unlock)
	case hold > 0:
		d := upTo(c.habits, 2*hold)
		if w.Habits.Mixed && c.habits.IntN(16) == 0 {
			d += 2 * w.TTL
		}
		u.later(d, u.unlock)
	}
}

func (u *user) failed(o *claims.Output) {
	w := u.client.w
	w.note('f', u.client.number, uint64(o.Reason))
	if w.tell != nil {
		w.say("a caller of %v does not get %s: %v", u.client, u.want.Name, o.Reason)
	}
	u.checkFailed(o)
	u.rest()
	u.think()
}

// loses: it notices soon, and unlocks.
func (u *user) loses(o *claims.Output) {
	c, w := u.client, u.client.w
	w.counts.Losses++
	w.counts.Lost[o.Reason]++
	w.note('l', c.number, uint64(o.Reason))
	w.say("%v loses %s: %v", c, u.want.Name, o.Reason)
	if u.hold == nil || u.hold.lease != o.Lease || u.hold.told {
		w.fail(Loss, "%v loses a lease that it does not hold", c)
		return
	}
	u.hold.told = true
	u.checkLost(o)
	if u.state == holds {
		u.later(upTo(c.habits, 50*time.Millisecond), u.unlock)
	}
}

func (u *user) unlock() {
	if u.state != holds {
		return
	}
	c, w := u.client, u.client.w
	u.turn++
	u.state = unlocks
	u.proven = !u.lease.Over() && c.now() < u.lease.Ends()
	u.lot.left(u.hold)
	w.note('u', c.number, u.lease.Token)
	w.say("%v unlocks %s", c, u.want.Name)
	c.machine.Unlock(c.now(), u.lease, true)
	c.carryOut(nil)
	if u.state == unlocks {
		u.hold.asked = true
	}
}

func (u *user) ends(o *claims.Output) {
	w := u.client.w
	w.note('o', u.client.number, uint64(o.Reason))
	w.counts.Unlocks[o.Reason]++
	u.checkEnded(o)
	u.rest()
	u.think()
}
