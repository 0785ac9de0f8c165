package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
)

// A world is what a machine lives in: several clients, each a Machine with the
// callers of one process, one queue.Queue for each name as their engine, a clock,
// and everything that is under way between them. It moves only by steps
// (explore_steps_test.go), and a step is all that chance decides, so that a
// world is the same whenever the same steps are taken.

// setup is what a world begins with. It is constant.
type setup struct {
	name    string
	clients []clientSetup

	faults  int       // how many faults one schedule may have
	kinds   faultKind // and which
	quits   int       // how often a caller gives up
	revokes int       // how often somebody revokes a claim

	cycles      bool // who waits while it holds something looks for deadlocks
	closes      bool // clients may close
	subscribing bool // clients begin without a subscription
	unordered   bool // the engine has no order: it remembers nobody who waits
	notifies    bool // it tells who waits that somebody has left

	seen  int // states that CI looks at; make explore looks at many times as many
	tests int // run until all is quiet from every n-th of them
}

type clientSetup struct {
	config  Config
	callers []callerSetup
}

type callerSetup struct {
	Want
	rounds int  // how often it asks
	inside int  // it asks while this other caller holds: 1 is the first; 0: no other
	churns bool // it stands for many callers, who take turns
}

// faultKind is a set of what can go wrong on the way.
type faultKind uint16

const (
	loseRequest faultKind = 1 << iota // it does not arrive, and that is reported
	loseAnswer                        // it arrives, and an error is reported
	straggle                          // an error is reported, and it arrives later, or once more
	slow                              // a call takes as long as it may
	refuse                            // a Join is refused
	loseNotification
	lateNotification
	repeatNotification
	pause     // a process stops, and finds its deadlines late
	interrupt // a subscription breaks and begins again

	anyFault = 1<<iota - 1
)

var (
	errReset   = errors.New("connection reset")
	errTooMany = engine.Refuse("too many claims")
)

type world struct {
	setup *setup

	now     time.Duration
	names   []string
	queues  []queue.Queue
	tokens  []uint64 // the highest of an exclusive lease of each name
	turns   []turns
	fates   map[engine.ID]*fate
	clients []*client
	strays  []*call // requests whose answer nobody waits for

	faults, quits, revokes int

	broken string       // the first thing that is wrong
	say    func(string) // unless nil, is told every step
	said   []string     // what the step under way brought about
	calls  int          // how many were made
}

type client struct {
	w             *world
	index         int
	machine       *Machine
	actors        []*actor
	calls         []*call
	notifications []notified

	subscribed bool
	paused     bool
	closed     bool
	drawn      byte        // IDs
	gaveUp     []engine.ID // claims that Leave was asked for
}

// actor is a caller and what became of it.
type actor struct {
	callerSetup
	client *client
	index  int

	state   actorState
	caller  *Caller
	lease   *Lease
	mayQuit bool // its context ended, which its Join said already: it gives up

	detector *detector     // a look for deadlocks under way
	looked   time.Duration // when the last one ended

	past   bool // the time of its lease was up: it must not go on
	lost   bool // Lose was said
	proven bool // when it was unlocked, its hold was proven
}

type actorState uint8

const (
	away  actorState = iota
	comes            // its Enter waits for a Leave: see ReleaseIdle
	waits
	holds
	unlocks
)

// call is a call of the engine that is under way.
type call struct {
	act     Act
	client  int
	claim   *Claim // Join
	request engine.Request
	maker   *Caller // Join: in whose goroutine, that of its Enter, it runs; nil: in nobody's
	asked   []engine.Renewal
	left    []engine.Claim
	lease   *Lease // Leave: whose Unlock it is
	comer   *actor // Leave: whose Enter follows it

	s, bound time.Duration
	slow     bool // time may pass meanwhile
	arrived  bool
	got      []engine.Claim
	err      error
}

// notification is one report on the way to a client; begin: that a subscription began.
type notified struct {
	claim engine.Claim
	begin bool
	late  bool // time may pass meanwhile
}

// start is when worlds begin: no time that the machine compares with is zero by
// accident.
const start = 1000 * time.Hour

func newWorld(s *setup) *world {
	w := &world{setup: s, fates: map[engine.ID]*fate{}, now: start, faults: s.faults, quits: s.quits, revokes: s.revokes}
	for i := range s.clients {
		cs := &s.clients[i]
		c := &client{w: w, index: i, subscribed: !s.subscribing}
		cfg := cs.config
		cfg.NewID = c.newID
		cfg.Jitter = func(d time.Duration) time.Duration { return d }
		cfg.Unordered = s.unordered
		c.machine = New(cfg)
		c.machine.maxTries = 1
		for j, a := range cs.callers {
			c.actors = append(c.actors, &actor{callerSetup: a, client: c, index: j})
			w.nameIndex(a.Name)
		}
		w.clients = append(w.clients, c)
	}
	w.queues = make([]queue.Queue, len(w.names))
	w.tokens = make([]uint64, len(w.names))
	w.turns = make([]turns, len(w.names))
	return w
}

func (w *world) nameIndex(name string) int {
	i := slices.Index(w.names, name)
	if i < 0 {
		i = len(w.names)
		w.names = append(w.names, name)
	}
	return i
}

func (w *world) line(name string) *queue.Queue { return &w.queues[w.nameIndex(name)] }

// place is where a claim stands in the engine, nil if it does not.
func (w *world) place(name string, id engine.ID) *queue.Place {
	l := w.line(name)
	for i := range l.Places {
		if p := &l.Places[i]; p.ID == id && p.Deadline > w.now {
			return p
		}
	}
	return nil
}

// fate is what the world remembers of one claim.
type fate struct {
	ticket        uint64
	joined        time.Duration // when it came into the queue, in the life of that ticket
	abandon       time.Duration // until when a Join that was not answered has to be reckoned with
	notified      time.Duration // when its client was told last that somebody waits behind it
	indeterminate bool          // a Leave of it was not answered

	arrived  bool // its Join did
	repeated bool // and made it anew when it arrived once more
	unheard  bool // its client may not have been told that it holds, by a fault
}

func (w *world) fate(id engine.ID) *fate {
	f := w.fates[id]
	if f == nil {
		f = &fate{}
		w.fates[id] = f
	}
	return f
}

func (w *world) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *world) notified(format string, args ...any) {
	if w.say != nil {
		w.said = append(w.said, fmt.Sprintf(format, args...))
	}
}

func (c *client) newID() (id engine.ID) {
	c.drawn++
	id[0], id[1] = byte(c.index+1), c.drawn
	return id
}

func (c *client) String() string { return string(rune('A' + c.index)) }

func (a *actor) String() string { return fmt.Sprintf("%v%d", a.client, a.index+1) }

// title is how a schedule names a claim: whose, and which of theirs.
func title(id engine.ID) string { return fmt.Sprintf("%c#%d", 'A'+id[0]-1, id[1]) }

func (c *call) String() string {
	var of []string
	switch c.act {
	case Join:
		of = append(of, title(c.request.ID))
	case Renew:
		for _, r := range c.asked {
			of = append(of, title(r.ID))
		}
	case Leave:
		for _, l := range c.left {
			of = append(of, title(l.ID))
		}
	}
	return c.act.String() + " " + strings.Join(of, " ")
}

// arrive has the engine do what a call asks for.
func (w *world) arrive(c *call) {
	c.arrived = true
	client := string(rune('A' + c.client))
	switch c.act {
	case Join:
		got, notifications, err := w.join(client, c.request)
		c.got, c.err = []engine.Claim{got}, err
		if f := w.fate(c.request.ID); err == nil && (got.State != engine.Waiting || !w.setup.unordered) {
			if got.State != engine.Gone && f.ticket != got.Ticket {
				f.ticket, f.joined, f.repeated = got.Ticket, w.now, f.arrived
			}
			f.arrived = true
		}
		w.notified("%v", got.State)
		w.send(notifications)
	case Renew:
		for _, r := range c.asked {
			got, notifications := w.line(r.Name).Renew(w.now, r)
			c.got = append(c.got, got)
			w.notified("%v", got.State)
			w.send(notifications)
		}
	case Leave:
		for _, l := range c.left {
			got, notifications := w.line(l.Name).Leave(w.now, l.Name, l.ID)
			c.got = append(c.got, got)
			w.notified("found %v", got.State)
			w.send(notifications)
			if got.State == engine.Held {
				w.goodMoment(l.Name)
			}
		}
	}
}

// join is what the engine does with a Join. One without order takes what is free, and
// remembers nothing of who has to wait.
func (w *world) join(client string, r engine.Request) (engine.Claim, []queue.Notification, error) {
	l := w.line(r.Name)
	if !w.setup.unordered {
		return l.Join(w.now, 0, client, r)
	}
	var notifications []queue.Notification
	if r.Replaces != (engine.ID{}) {
		_, notifications = l.Leave(w.now, r.Name, r.Replaces)
	}
	waits := !r.NoWait
	r.NoWait, r.Replaces = true, engine.ID{}
	got, more, err := l.Join(w.now, 0, client, r)
	if err == nil && waits && got.State == engine.Gone && !got.Revoked {
		got.State, got.TTL, got.PollAfter = engine.Waiting, r.WaitTTL, 500*time.Millisecond
	}
	return got, append(notifications, more...), err
}

// goodMoment tells who waits for a name, where the engine has no order, that it is a
// good moment to try.
func (w *world) goodMoment(name string) {
	if !w.setup.unordered || !w.setup.notifies {
		return
	}
	var notifications []queue.Notification
	for _, c := range w.clients {
		for _, cl := range c.machine.inOrder() {
			if cl.Name() == name && (cl.phase == Waiting || cl.phase == Joining) {
				notifications = append(notifications, queue.Notification{Client: c.String(), Claim: engine.Claim{Name: name, ID: cl.id, State: engine.Waiting}})
			}
		}
	}
	w.send(notifications)
}

func (w *world) send(notifications []queue.Notification) {
	for _, n := range notifications {
		c := w.clients[n.Client[0]-'A']
		if !c.subscribed || c.closed {
			w.notified("%v is not told", c)
			continue
		}
		w.notified("%v is told", c)
		c.notifications = append(c.notifications, notified{claim: n.Claim})
	}
}

// answer reports a call to its machine.
func (c *client) answer(q *call, err error) {
	c.calls = slices.DeleteFunc(c.calls, func(o *call) bool { return o == q })
	m, now := c.machine, c.w.now
	var got []engine.Claim
	if err == nil {
		got, err = q.got, q.err
	}
	switch q.act {
	case Join:
		cancelled := errors.Is(err, context.Canceled)
		var one engine.Claim
		f := c.w.fate(q.request.ID)
		switch {
		case err == nil:
			one = got[0]
			f.abandon = 0
			c.notified(one)
		case !refused(err):
			f.abandon = now + 2*q.request.WaitTTL
		}
		m.Joined(now, q.claim, q.s, one, err, cancelled)
	case Renew:
		for _, o := range got {
			c.notified(o)
		}
		m.Renewed(now, q.s, q.asked, got, err)
		for _, o := range got {
			c.checkUntold(q, o)
		}
	case Leave:
		if a := c.unlocking(q.lease); a != nil && (err != nil || got[0].State != engine.Held) {
			// Whatever Unlock says now, it may not say that all is well.
			a.proven = false
		}
		for i, l := range q.left {
			f := c.w.fate(l.ID)
			f.indeterminate = err != nil
			if err == nil && (got[i].State != engine.Gone || got[i].Revoked) {
				f.abandon = 0
			}
		}
		m.Left(now, q.left, got, err)
	}
	c.carryOut(nil)
	if q.comer != nil {
		c.enterNow(q.comer)
	}
}

// unheard: what the engine said of a call, or in a notification, was lost.
func (w *world) unheard(q *call) {
	if q.act == Join {
		w.fate(q.request.ID).unheard = true
	}
	for _, r := range q.asked {
		w.fate(r.ID).unheard = true
	}
}

func (c *client) unlocking(l *Lease) *actor {
	if l == nil {
		return nil
	}
	return l.Tag.(*actor)
}

// carryOut does what the machine asks for, as the shell does.
func (c *client) carryOut(me *Caller) {
	w := c.w
	var renew, leave *call
	for _, o := range c.machine.Outputs() {
		c.checkOutput(&o)
		switch o.Act {
		case Join:
			if w.setup.cycles && o.Caller != nil {
				o.Claim.Owner = &engine.Owner{Holds: o.Caller.Lease.Outer.Holds(c.machine, 1)}
			}
			q := &call{act: Join, client: c.index, claim: o.Claim, request: o.Claim.Request(), s: w.now, bound: w.now + o.Claim.waitTTL}
			if o.Caller == me {
				q.maker = me
			}
			c.begin(q)
		case Renew:
			if renew == nil {
				renew = &call{act: Renew, client: c.index, s: w.now}
				c.begin(renew)
			}
			renew.asked = append(renew.asked, engine.Renewal{Name: o.Claim.Name(), ID: o.Claim.ID(), Want: o.Want})
			if renew.bound = max(renew.bound, w.now+o.Bound); c.closed {
				renew.bound = w.now + leaveBound // Close bounds all its calls alike
			}
			w.notified("%v %s for %v", o.Act, title(o.Claim.ID()), o.Want)
		case Leave:
			claim := engine.Claim{Name: o.Claim.Name(), ID: o.Claim.ID()}
			if o.Lease != nil || o.Caller != nil {
				q := &call{act: Leave, client: c.index, left: []engine.Claim{claim}, lease: o.Lease, s: w.now, bound: w.now + leaveBound}
				if o.Caller != nil {
					q.comer = o.Caller.Tag.(*actor)
					q.comer.state = comes
				}
				c.begin(q)
				break
			}
			if leave == nil {
				leave = &call{act: Leave, client: c.index, s: w.now, bound: w.now + leaveBound}
				c.begin(leave)
			}
			leave.left = append(leave.left, claim)
		case Deliver:
			a := o.Caller.Tag.(*actor)
			a.state, a.mayQuit, a.lost, a.past, a.detector = holds, false, false, false, nil
			w.notified("%v holds %s", a, title(a.lease.claim.ID()))
		case Fail:
			a := o.Caller.Tag.(*actor)
			a.state, a.mayQuit, a.detector = away, false, nil
			w.notified("%v fails: %v", a, o.Reason)
		case Lose:
			a := o.Lease.Tag.(*actor)
			a.lost = true
			w.notified("%v loses: %v", a, o.Reason)
		case End:
			a := o.Lease.Tag.(*actor)
			a.state = away
			w.notified("%v unlocked: %v", a, o.Reason)
		case Contend:
			w.notified("%v is contended", o.Lease.Tag)
		}
	}
}

// leaveBound is how long a Leave, and Close, may take: releaseBound of the shell.
const leaveBound = 5 * time.Second

func (c *client) begin(q *call) {
	c.calls = append(c.calls, q)
	c.w.calls++
	switch q.act {
	case Join:
		c.w.notified("join %s", title(q.request.ID))
	case Leave:
		c.w.notified("leave")
	}
}

func (c *client) enter(a *actor) {
	a.lost, a.proven = false, false
	a.rounds--
	a.lease = &Lease{Tag: a}
	if a.inside > 0 {
		a.lease.Outer = c.actors[a.inside-1].lease.Holding()
	}
	a.caller = &Caller{Want: a.Want, Lease: a.lease, Tag: a}
	if a.NoWait {
		c.machine.ReleaseIdle(c.w.now, a.caller)
		c.carryOut(nil)
	}
	if a.state == away {
		c.enterNow(a)
	}
}

func (c *client) enterNow(a *actor) {
	a.state = waits
	if !c.machine.EnterBehind(a.caller) {
		c.machine.Enter(c.w.now, a.caller)
	}
	c.carryOut(a.caller)
}

func (c *client) quit(a *actor) {
	if !c.machine.GiveUp(c.w.now, a.caller) {
		c.w.fail("%v waits, and GiveUp says that it was answered", a)
	}
	a.state, a.mayQuit, a.detector = away, false, nil
	c.carryOut(nil)
}

func (c *client) unlock(a *actor) {
	a.state = unlocks
	a.proven = !a.lease.Over() && c.w.now < a.lease.Ends()
	c.machine.Unlock(c.w.now, a.lease, true)
	c.carryOut(nil)
}

// tick has the machine do all that is due.
func (c *client) tick() {
	for n := 0; ; n++ {
		due, ok := c.machine.Due()
		if !ok || due > c.w.now {
			return
		}
		if n == 4 {
			c.w.fail("%v: Tick leaves what is due", c)
			return
		}
		c.machine.Tick(c.w.now)
		c.carryOut(nil)
		c.checkTicked()
	}
}

func (c *client) owesTick() bool {
	due, ok := c.machine.Due()
	return ok && due <= c.w.now
}
