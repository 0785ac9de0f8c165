package claims

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"leasehold/engine"
)

const (
	ms  = time.Millisecond
	ttl = 30 * time.Second
)

var errCut = errors.New("connection cut")

// rig is a machine whose engine is the test: it says what each call answers.
type rig struct {
	*Machine
	t    *testing.T
	now  time.Duration
	outs []Output // not looked at yet
}

func newRig(t *testing.T, cfg Config) *rig {
	n := uint64(0)
	cfg.NewID = func() (id engine.ID) {
		n++
		binary.BigEndian.PutUint64(id[8:], n)
		return id
	}
	cfg.Jitter = func(d time.Duration) time.Duration { return d }
	r := &rig{t: t, now: time.Hour}
	trace := cfg.Trace
	cfg.Trace = func(s Step) {
		if trace != nil {
			trace(s)
		}
	}
	r.Machine = New(cfg)
	return r
}

// after lets time pass, with the Ticks that are due on the way.
func (r *rig) after(d time.Duration) {
	for end := r.now + d; ; {
		due, ok := r.Due()
		if !ok || due > end {
			r.now = end
			return
		}
		r.now = max(r.now, due)
		r.Tick(r.now)
		r.gather()
	}
}

func (r *rig) gather() { r.outs = append(r.outs, r.Outputs()...) }

// take is the oldest output of that kind; it fails the test if there is none.
func (r *rig) take(a Act) Output {
	r.t.Helper()
	r.gather()
	for i, o := range r.outs {
		if o.Act == a {
			r.outs = append(r.outs[:i:i], r.outs[i+1:]...)
			return o
		}
	}
	r.t.Fatalf("no %v among %v\n%v", a, r.acts(), r.Machine)
	return Output{}
}

// none fails the test if there is an output of that kind.
func (r *rig) none(a Act) {
	r.t.Helper()
	r.gather()
	for _, o := range r.outs {
		if o.Act == a {
			r.t.Fatalf("%v (%v) among %v\n%v", a, o.Reason, r.acts(), r.Machine)
		}
	}
}

// count is how many outputs of that kind were not looked at yet.
func (r *rig) count(a Act) (n int) {
	r.gather()
	for _, o := range r.outs {
		if o.Act == a {
			n++
		}
	}
	return n
}

// proven answers a Renew that began at s.
func (r *rig) proven(o Output, s time.Duration, got engine.Claim) {
	r.Renewed(r.now, s, []engine.Renewal{{Name: o.Claim.Name(), ID: o.Claim.ID(), Want: o.Want}}, []engine.Claim{got}, nil)
}

// notification is what the engine tells of a claim.
func (r *rig) notified(cl *Claim, state engine.State, change ...func(*engine.Claim)) {
	got := r.answer(cl, state, cl.Ticket(), 0)
	for _, f := range change {
		f(&got)
	}
	r.Notified(r.now, got)
}

func (r *rig) acts() (s []string) {
	for _, o := range r.outs {
		s = append(s, o.Act.String())
	}
	return s
}

func exclusive(name string) Want {
	return Want{Name: name, Permits: engine.Max, Limit: engine.Max, TTL: ttl}
}

// enter is a caller with what it asks for, under outer.
func (r *rig) enter(w Want, outer ...*Lease) *Caller {
	c := &Caller{Want: w, Lease: new(Lease)}
	if len(outer) > 0 {
		c.Lease.Outer = outer[0].Holding()
	}
	r.Enter(r.now, c)
	return c
}

func (r *rig) answer(cl *Claim, state engine.State, ticket uint64, ttl time.Duration) engine.Claim {
	return engine.Claim{Name: cl.Name(), ID: cl.ID(), Ticket: ticket, State: state, TTL: ttl}
}

// joined answers the next Join.
func (r *rig) joined(state engine.State, ticket uint64) *Claim {
	r.t.Helper()
	cl := r.take(Join).Claim
	r.Joined(r.now, cl, r.now, r.answer(cl, state, ticket, cl.Request().WaitTTL), nil, false)
	return cl
}

// renewed answers the next Renew as it was asked for.
func (r *rig) renewed(change ...func(*engine.Claim)) *Claim {
	r.t.Helper()
	o := r.take(Renew)
	got := r.answer(o.Claim, engine.Held, o.Claim.Ticket(), o.Want)
	for _, f := range change {
		f(&got)
	}
	r.Renewed(r.now, r.now, []engine.Renewal{{Name: got.Name, ID: got.ID, Want: o.Want}}, []engine.Claim{got}, nil)
	return o.Claim
}

// failRenew has the next Renew fail.
func (r *rig) failRenew() {
	r.t.Helper()
	o := r.take(Renew)
	r.Renewed(r.now, r.now, []engine.Renewal{{Name: o.Claim.Name(), ID: o.Claim.ID(), Want: o.Want}}, nil, errCut)
}

// left answers the next Leave.
func (r *rig) left(state engine.State, change ...func(*engine.Claim)) {
	r.t.Helper()
	cl := r.take(Leave).Claim
	got := []engine.Claim{r.answer(cl, state, cl.Ticket(), 0)}
	for _, f := range change {
		f(&got[0])
	}
	if state == engine.Unknown {
		got = nil
	}
	err := error(nil)
	if got == nil {
		err = errCut
	}
	r.Left(r.now, []engine.Claim{{Name: cl.Name(), ID: cl.ID()}}, got, err)
}

func contended(c *engine.Claim) { c.Contended = true }

// hold is a lease of a claim of its own.
func (r *rig) hold(w Want, ticket uint64, outer ...*Lease) *Lease {
	r.t.Helper()
	r.enter(w, outer...)
	r.joined(engine.Held, ticket)
	for {
		r.gather()
		for _, o := range r.outs {
			if o.Act == Deliver {
				return r.take(Deliver).Lease
			}
		}
		r.after(0)
		r.renewed()
	}
}

// wantEmpty fails the test if anything is left of anybody.
func (r *rig) wantEmpty() {
	r.t.Helper()
	if n, m := r.Len(); n > 0 || m > 0 {
		r.t.Fatalf("%d claims, %d queues are left: %v", n, m, r.Machine)
	}
	if due, ok := r.Due(); ok {
		r.t.Fatalf("something is due at %v", due)
	}
}
