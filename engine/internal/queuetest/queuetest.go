// Package queuetest does random operations to an engine and to package queue, side by
// side, and compares every reply, refusal and notification, and the queue that is left. Both
// read a clock that the test moves, so that all of it is exact. It sees no two calls at
// the same time, and no answer that was lost.
package queuetest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
)

// Subject is an engine, and what is needed to look into it. Of what is nil nothing is
// compared.
type Subject struct {
	Clients []Client
	Seeds   int // of each scenario; one with -short

	// Empty forgets every queue. The clock will jump, back as well, or only go on.
	Empty func(t *Run, jumps bool)

	// SetClock sets the clock, which counts from 1970, before each operation.
	SetClock func(t *Run, now time.Duration)

	// Stored is what the engine has stored of the queue of a name: Places and Limit. It
	// fails the test where something does not fit together.
	Stored func(t *Run, name string) queue.Queue

	// Notifications are those of the last operation, in any order.
	Notifications func(t *Run) []queue.Notification

	// Grant is what the engine gives a claim that waits, and asks for so much, by a
	// Join again or by a renewal: nil gives what it asks for.
	Grant func(t *Run, p queue.Place, want time.Duration, renewal bool) time.Duration

	// RemembersRevoked is whether a renewal of a claim that Revoke took out of the queue
	// says so, until its deadline. Package queue forgets such a claim.
	RemembersRevoked bool

	// Look, if not nil, is whether a claim of that state may be told so: the engine has
	// an own mind about when to look.
	PollAfter func(engine.State, time.Duration) bool
}

// Client is one client of the engine, by the name that its claims have.
type Client struct {
	Name   string
	Engine engine.Engine
}

// scenario is what operations are chosen from.
type scenario struct {
	name         string
	kinds        [][2]int32 // permits and limit
	ttls         []time.Duration
	steps, jumps []time.Duration // of the clock
	often        int             // one step in so many is a jump
	most         int             // in the queue before nobody else joins; 0: any number
}

func scenarios() []scenario {
	kinds := [][2]int32{{engine.Max, engine.Max}, {1, engine.Max}, {1, 3}, {2, 3}, {3, 3}, {3, 5}, {5, 5}}
	ttls := []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, time.Minute, 3 * time.Hour}
	steps := []time.Duration{time.Microsecond, 50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 40 * time.Minute}
	jumps := []time.Duration{-200 * time.Millisecond, -time.Hour, time.Hour}
	return []scenario{
		{"locks", kinds[:2], ttls, steps, jumps, 10, 0},
		{"semaphores", kinds[2:5], ttls, steps, jumps, 10, 0},
		{"semaphores of two limits", kinds[2:], ttls, steps, jumps, 10, 0},
		{"what must not be mixed", kinds, ttls, steps, jumps, 10, 0},
		{"long queues of which few expire", kinds[:2], ttls[3:], steps[:3], jumps[:1], 10, 0},
		{"exclusive, and the clock trembles", kinds[:1], []time.Duration{time.Hour, 3 * time.Hour}, steps[:4], jumps[:1], 3, 0},
		{"exclusive, short queues of which some expire", kinds[:1], []time.Duration{3 * time.Second, time.Hour, 3 * time.Hour},
			[]time.Duration{time.Microsecond, 500 * time.Millisecond, 2 * time.Second, 40 * time.Minute}, jumps, 50, 4},
	}
}

// Run is one seed of a scenario, up to the operation that is under way. It is the test,
// with the operations before in what it says when it fails.
type Run struct {
	*testing.T
	Now time.Duration // since 1970

	s     *Subject
	is    scenario
	jumps bool // the clock does
	rng   *rand.Rand
	log   []string
	queue queue.Queue // as it must be
	ids   []engine.ID

	ended map[engine.ID]queue.Place // by Revoke, as they were
}

// Fatalf ends the test.
func (r *Run) Fatalf(format string, args ...any) {
	r.Helper()
	r.T.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(r.log[max(0, len(r.log)-25):], "\n"))
}

// Fatal ends the test.
func (r *Run) Fatal(args ...any) {
	r.Helper()
	r.Fatalf("%s", fmt.Sprint(args...))
}

// Did says what was done, for when the test fails.
func (r *Run) Did(format string, args ...any) { r.log = append(r.log, fmt.Sprintf(format, args...)) }

// name is of the queue that is looked at, with what quoting and hashing might stumble at.
const (
	name   = "a '{name}' é"
	nobody = "nobody" // has joined this one
)

// operations of one seed.
func operations() int {
	if testing.Short() {
		return 80
	}
	return 250
}

// Compare compares. The clock begins at a moment since 1970.
func Compare(t *testing.T, s Subject, began time.Duration) {
	if testing.Short() {
		s.Seeds = min(s.Seeds, 1)
	}
	for i, is := range scenarios() {
		for seed := range s.Seeds {
			t.Run(fmt.Sprintf("%s/seed %d", is.name, seed), func(t *testing.T) {
				r := &Run{T: t, Now: began, s: &s, is: is, jumps: (i+seed)%2 == 0, rng: rand.New(rand.NewPCG(uint64(seed), uint64(i))), ended: map[engine.ID]queue.Place{}}
				s.Empty(r, r.jumps)
				for range operations() {
					r.time()
					r.operation()
				}
			})
		}
	}
}

func pick[T any](r *Run, of []T) T { return of[r.rng.IntN(len(of))] }

func (r *Run) time() {
	if r.rng.IntN(3) == 0 {
		step := pick(r, r.is.steps)
		if r.jumps && r.rng.IntN(r.is.often) == 0 {
			step = pick(r, r.is.jumps) // clocks do that
		}
		r.Now += step
		r.Did("clock %v", step)
	}
	r.s.SetClock(r, r.Now)
}

// id is one in the queue, one that was, or a new one.
func (r *Run) id() engine.ID {
	inQueue := 2
	if r.is.most > 0 {
		inQueue = 10
	}
	if len(r.queue.Places) > 0 && r.rng.IntN(inQueue) > 0 {
		return pick(r, r.queue.Places).ID
	}
	if len(r.ids) == 0 || r.rng.IntN(10) == 0 {
		return engine.NewID()
	}
	return r.ids[max(0, len(r.ids)-1-r.rng.IntN(8))]
}

func (r *Run) operation() {
	r.Helper()
	c := pick(r, r.s.Clients)
	op := r.rng.IntN(20)
	if op < 8 && r.is.most > 0 && len(r.queue.Places) >= r.is.most {
		op = 12 // leaves
	}
	var got, want engine.Claim
	var notifications []queue.Notification
	switch {
	case op < 8:
		got, want, notifications = r.join(c)
	case op < 12:
		got, want, notifications = r.renew(c)
	case op < 18:
		id := r.id()
		r.Did("%s leaves %x", c.Name, id[:2])
		want, notifications = r.queue.Leave(r.Now, name, id)
		got = r.only(c.Engine.Leave(r.Context(), append([]engine.Claim{{Name: name, ID: id}}, more(r, engine.Claim{Name: nobody})...)))
	default:
		notifications = r.revoke(c)
	}
	r.compare(got, want, notifications)
	view, err := c.Engine.Queue(r.Context(), name)
	if err != nil {
		r.Fatalf("Queue: %v", err)
	}
	if want := r.queue.View(r.Now, name); !reflect.DeepEqual(view, want) {
		r.Fatalf("view:\n got %+v\nwant %+v", view, want)
	}
}

func (r *Run) join(c Client) (got, want engine.Claim, notifications []queue.Notification) {
	r.Helper()
	kind := pick(r, r.is.kinds)
	q := engine.Request{Name: name, ID: engine.NewID(), Permits: kind[0], Limit: kind[1], WaitTTL: pick(r, r.is.ttls),
		NoWait: r.rng.IntN(4) == 0, Detached: r.rng.IntN(4) == 0}
	switch r.rng.IntN(8) {
	case 0:
		q.ID = r.id()
	case 1, 2:
		if q.Replaces = r.id(); q.NoWait || q.Replaces == q.ID {
			q.Replaces = engine.ID{}
		}
	}
	q.Owner = engine.Owner{Label: "owner of " + q.ID.Secret()}
	r.Did("%s joins %x replacing %x %+v", c.Name, q.ID[:2], q.Replaces[:2], q)
	before := slices.Clone(r.queue.Places)
	given := q
	given.WaitTTL = r.granted(q.ID, q.WaitTTL, false)
	want, notifications, err := r.queue.Join(r.Now, uint64(r.Now.Microseconds()), c.Name, given)
	got, errg := c.Engine.Join(r.Context(), q)
	switch {
	case err != nil:
		// The queue says what both must: refused, and nothing changed.
		r.queue.Places = before
		if errg == nil || !errors.Is(errg, engine.ErrRefused) || errg.Error() != err.Error() {
			r.Fatalf("refusal: got %v, want %v", errg, err)
		}
		return got, got, nil
	case errg != nil:
		r.Fatalf("Join: %v", errg)
	}
	r.ids = append(r.ids, q.ID)
	return got, want, notifications
}

func (r *Run) renew(c Client) (got, want engine.Claim, notifications []queue.Notification) {
	r.Helper()
	q := engine.Renewal{Name: name, ID: r.id(), Want: pick(r, r.is.ttls)}
	r.Did("%s renews %x for %v", c.Name, q.ID[:2], q.Want)
	given := q
	given.Want = r.granted(q.ID, q.Want, true)
	want, notifications = r.queue.Renew(r.Now, given)
	asked := append([]engine.Renewal{q}, more(r, engine.Renewal{Name: nobody, Want: q.Want})...)
	got = r.only(c.Engine.Renew(r.Context(), asked))
	if p, ended := r.ended[q.ID]; ended && p.Deadline > r.Now && want.State == engine.Gone && !want.Revoked {
		want.Revoked, want.Ticket, want.Permits, want.Limit = true, p.Ticket, p.Permits, got.Limit
	}
	return got, want, notifications
}

func (r *Run) revoke(c Client) []queue.Notification {
	r.Helper()
	ticket, now := uint64(r.rng.IntN(100)), r.rng.IntN(2) == 0
	if len(r.queue.Places) > 0 {
		ticket = pick(r, r.queue.Places).Ticket
	}
	r.Did("%s revokes %d, at once: %v", c.Name, ticket, now)
	before := slices.Clone(r.queue.Places)
	notifications, err := r.queue.Revoke(r.Now, name, ticket, now)
	stays := func(p queue.Place) bool { return p.Ticket == ticket }
	if i := slices.IndexFunc(before, stays); r.s.RemembersRevoked && err == nil && !slices.ContainsFunc(r.queue.Places, stays) {
		maps.DeleteFunc(r.ended, func(_ engine.ID, p queue.Place) bool { return p.Deadline <= r.Now })
		p := before[i]
		p.Deadline = min(p.Deadline, r.Now+p.Asked) // where the clock stepped back
		r.ended[p.ID] = p
	}
	if errg := c.Engine.Revoke(r.Context(), name, ticket, now); fmt.Sprint(errg) != fmt.Sprint(err) {
		r.Fatalf("Revoke: got %v, want %v", errg, err)
	}
	return notifications
}

// more is, every other time, what makes a call for several of a call for one.
func more[T any](r *Run, one T) []T {
	if r.rng.IntN(2) == 0 {
		return nil
	}
	return []T{one}
}

// only is the answer of a call, without what more adds.
func (r *Run) only(cs []engine.Claim, err error) engine.Claim {
	r.Helper()
	cs = slices.DeleteFunc(cs, func(c engine.Claim) bool { return c.Name == nobody })
	if err != nil || len(cs) != 1 {
		r.Fatalf("got %v %v", cs, err)
	}
	return cs[0]
}

// granted is what a claim is given that asks for so much.
func (r *Run) granted(id engine.ID, want time.Duration, renewal bool) time.Duration {
	i := slices.IndexFunc(r.queue.Places, func(p queue.Place) bool { return p.ID == id && p.Deadline > r.Now })
	if r.s.Grant == nil || i < 0 || r.queue.Places[i].Held {
		return want
	}
	return r.s.Grant(r, r.queue.Places[i], want, renewal)
}

func (r *Run) compare(got, want engine.Claim, notifications []queue.Notification) {
	r.Helper()
	if r.s.PollAfter != nil {
		if !r.s.PollAfter(got.State, got.PollAfter) {
			r.Fatalf("Look of %+v", got)
		}
		got.PollAfter, want.PollAfter = 0, 0
	}
	if !reflect.DeepEqual(got, want) {
		r.Fatalf("reply:\n got %+v\nwant %+v", got, want)
	}
	if r.s.Notifications != nil {
		order := func(a, b queue.Notification) int {
			return cmp.Or(cmp.Compare(a.Claim.State, b.Claim.State), cmp.Compare(a.Claim.Ticket, b.Claim.Ticket))
		}
		received := slices.SortedStableFunc(slices.Values(r.s.Notifications(r)), order)
		if notifications = slices.SortedStableFunc(slices.Values(notifications), order); !slices.EqualFunc(received, notifications, func(a, b queue.Notification) bool { return reflect.DeepEqual(a, b) }) {
			r.Fatalf("notifications:\n got %+v\nwant %+v", received, notifications)
		}
	}
	stored := r.s.Stored(r, name)
	if g, w := r.plain(stored.Places), r.plain(r.queue.Places); !reflect.DeepEqual(g, w) {
		r.Fatalf("queue:\n got %+v\nwant %+v", g, w)
	}
	if len(r.queue.Places) > 0 && stored.Limit != r.queue.Limit {
		r.Fatalf("limit: got %d, want %d", stored.Limit, r.queue.Limit)
	}
}

// plain is a queue without what means nothing: whether a claim was told that waits, or is
// marked, or of an engine that tells nobody.
func (r *Run) plain(places []queue.Place) (out []queue.Place) {
	for _, p := range places {
		p.Notified = p.Notified && p.Held && !p.Revoked && r.s.Notifications != nil
		out = append(out, p)
	}
	return out
}
