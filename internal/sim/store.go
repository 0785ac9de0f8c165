package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
	"leasehold/internal/claims"
)

// store is the engine: a queue for each name, a clock, and a policy.
type store struct {
	w        *world
	clock    clock
	chances  *rand.Rand
	down     bool
	back     time.Duration // when it was last disturbed
	forgot   time.Duration // when it last forgot something, by its clock
	sessions map[process]*session
}

// lot is one name: the engine's queue of it, and what the world knows of its callers.
type lot struct {
	name  string
	index int
	queue queue.Queue

	token   uint64 // the highest of an exclusive lease
	holds   []*hold
	waiting []*user
	at      int // in world.busy; -1: not there
	turns   turns
	unused  []unused      // see checkRoom
	free    time.Duration // since when nobody holds what callers wait for; 0: somebody does
}

func nameOf(i int) string { return "n" + strconv.Itoa(i) }

func (w *world) lotOf(name string) *lot {
	i, err := strconv.Atoi(name[1:])
	if err != nil {
		panic(err) // nobody but nameOf makes names
	}
	return w.lots[i]
}

// What the engine's clock reads first, and as microseconds of a wall clock. Neither
// is zero, which would mean something to a machine.
const (
	epoch      = 1000 * time.Hour
	wallMicros = uint64(1_700_000_000_000_000)
)

var (
	errDown  = errors.New("the engine is down")
	errReset = errors.New("connection reset")
	errEnded = errors.New("the session has ended")
)

func newStore(w *world) store {
	return store{w: w, clock: clock{then: epoch, ppm: w.Engine}, chances: w.chances(0, 0), sessions: map[process]*session{}}
}

func (s *store) now() time.Duration { return s.clock.read(s.w.now) }

func (s *store) micros(now time.Duration) uint64 {
	return wallMicros + uint64((now-epoch)/time.Microsecond)
}

// joined is the engine's time at which the claim of a ticket joined, or a little later.
func joined(ticket uint64) time.Duration {
	return epoch + time.Duration(ticket-wallMicros)*time.Microsecond
}

// arrive does what a call asks for.
func (s *store) arrive(q *call) ([]engine.Claim, error) {
	address := q.from.address()
	if s.w.Policy == Sessions {
		ses := s.contact(q.from)
		if ses == nil {
			return nil, errEnded
		}
		address = ses.address
	}
	now := s.now()
	var got []engine.Claim
	switch q.act {
	case claims.Join:
		c, err := s.join(now, address, q.request)
		if err != nil {
			return nil, err
		}
		got = append(got, c)
	case claims.Renew:
		got = make([]engine.Claim, 0, len(q.asked))
		for _, r := range q.asked {
			if s.w.Policy == Sessions {
				r.Want = endless
			}
			c, notifications := s.w.lotOf(r.Name).queue.Renew(now, r)
			got = append(got, c)
			s.send(notifications)
		}
	case claims.Leave:
		got = make([]engine.Claim, 0, len(q.left))
		for _, l := range q.left {
			c, notifications := s.w.lotOf(l.Name).queue.Leave(now, l.Name, l.ID)
			got = append(got, c)
			s.send(notifications)
		}
	}
	s.advise(got)
	return got, nil
}

func (s *store) join(now time.Duration, address string, r engine.Request) (engine.Claim, error) {
	l := s.w.lotOf(r.Name)
	waits := !r.NoWait
	switch s.w.Policy {
	case Sessions:
		s.remember(address, l)
		r.WaitTTL = endless
	case NoOrder:
		if r.Replaces != (engine.ID{}) {
			_, notifications := l.queue.Leave(now, r.Name, r.Replaces)
			s.send(notifications)
		}
		r.NoWait, r.Replaces = true, engine.ID{}
	}
	c, notifications, err := l.queue.Join(now, s.micros(now), address, r)
	s.send(notifications)
	if s.w.Policy == NoOrder && waits && err == nil && c.State == engine.Gone && !c.Revoked {
		c.State, c.TTL = engine.Waiting, r.WaitTTL
	}
	return c, err
}

// pollEvery is how often the first waiter asks where nobody is told, and any waiter
// where there is no order.
const pollEvery = 250 * time.Millisecond

// advise makes answers what the policy says of them.
func (s *store) advise(got []engine.Claim) {
	for i := range got {
		c := &got[i]
		switch s.w.Policy {
		case Polls:
			if c.State == engine.Waiting {
				most := 4 * pollEvery
				if c.PollAfter > 0 { // the first waiter
					most = min(pollEvery, c.PollAfter)
				}
				c.PollAfter = most
			}
		case Sessions:
			c.PollAfter = 0
			if c.TTL > 0 {
				c.TTL = s.w.TTL
			}
		case NoOrder:
			if c.State == engine.Waiting {
				c.PollAfter = pollEvery/2 + upTo(s.chances, pollEvery)
			}
		}
	}
}

// send sends notifications to the clients they are for, if the policy sends any.
func (s *store) send(notifications []queue.Notification) {
	if s.w.Policy == Polls || s.w.Policy == NoOrder {
		return
	}
	for _, n := range notifications {
		if p := s.w.addresses[n.Client]; p.alive() {
			s.w.notify(p.client, n.Claim)
		}
	}
}

// revoke marks the first claim of a name.
func (s *store) revoke(l *lot) {
	if len(l.queue.Places) == 0 || s.down {
		return
	}
	s.w.revoked = true
	ticket := l.queue.Places[0].Ticket
	notifications, err := l.queue.Revoke(s.now(), l.name, ticket, false)
	if err == nil {
		s.w.say("ticket %s of %s is revoked", short(ticket), l.name)
	}
	s.send(notifications)
}

// snapshot is the state of every queue, for later.
func (s *store) snapshot() []queue.Queue {
	var qs []queue.Queue
	for _, l := range s.w.lots {
		q := l.queue
		q.Places = slices.Clone(q.Places)
		qs = append(qs, q)
	}
	return qs
}

// restart begins again with what there was; nil: with nothing. All subscriptions break.
func (s *store) restart(with []queue.Queue) {
	for i, l := range s.w.lots {
		l.queue = queue.Queue{}
		if with != nil {
			l.queue = with[i]
		}
		l.unused = nil
	}
	s.forgot = s.now()
	s.interrupt()
}

// interrupt breaks every subscription.
func (s *store) interrupt() {
	s.back = s.w.now
	for _, c := range s.w.clients {
		c.interrupt()
	}
}

// short is a ticket for people: the microseconds since the run began.
func short(ticket uint64) string {
	if ticket < wallMicros {
		return fmt.Sprint(ticket)
	}
	return fmt.Sprintf("+%d", ticket-wallMicros)
}
