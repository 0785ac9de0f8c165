package torture_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"leasehold/engine"
)

// clients are ways to use a store that is right. Most are wrong in one way.
var clients = map[string]func(*dialled) engine.Engine{
	"far":     func(e *dialled) engine.Engine { return &far{e} },
	"doubles": func(e *dialled) engine.Engine { return &doubles{e} },

	"answer": func(e *dialled) engine.Engine { return &fromAnswer{&far{e}} },
	"clock":  func(e *dialled) engine.Engine { return &tickets{e, ownClock()} },
	"coarse": func(e *dialled) engine.Engine { return &tickets{e, func(t uint64) uint64 { return t &^ (1<<24 - 1) }} },
}

// doubles is right, and declares that a failover may grant twice.
type doubles struct{ *dialled }

func (e *doubles) Guarantees() engine.Guarantees {
	g := e.dialled.Guarantees()
	g.Failover = engine.FailoverMayDouble
	return g
}

// far is a client whose store is far away: requests and answers take up to a quarter of a TTL.
// It has the store grant half of what it is asked for, and says so. That is right.
type far struct{ *dialled }

func onItsWay(ttl time.Duration) { time.Sleep(time.Duration(rand.Int64N(int64(ttl / 4)))) }

func (e *far) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	onItsWay(r.WaitTTL)
	defer onItsWay(r.WaitTTL)
	r.WaitTTL /= 2
	return e.dialled.Join(ctx, r)
}

func (e *far) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	onItsWay(rs[0].Want)
	defer onItsWay(rs[0].Want)
	rs = slices.Clone(rs)
	for i := range rs {
		rs[i].Want /= 2
	}
	return e.dialled.Renew(ctx, rs)
}

// fromAnswer is far, and trusts what the store grants from the moment of the answer. The store
// counts from the moment of the call, which was earlier.
type fromAnswer struct{ *far }

func (e *fromAnswer) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	began := time.Now()
	c, err := e.far.Join(ctx, r)
	c.TTL += time.Since(began)
	return c, err
}

func (e *fromAnswer) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	began := time.Now()
	cs, err := e.far.Renew(ctx, rs)
	for i := range cs {
		cs[i].TTL += time.Since(began)
	}
	return cs, err
}

// tickets shows other tickets than the store gave.
type tickets struct {
	*dialled
	shown func(uint64) uint64
}

// ownClock makes tickets, which are microseconds, by the clock of one client. It is up to five
// seconds ahead.
func ownClock() func(uint64) uint64 {
	ahead := rand.Uint64N(5_000_000)
	return func(ticket uint64) uint64 { return ticket + ahead }
}

func (e *tickets) show(cs []engine.Claim) {
	for i := range cs {
		if cs[i].Ticket != 0 {
			cs[i].Ticket = e.shown(cs[i].Ticket)
		}
	}
}

func (e *tickets) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	c, err := e.dialled.Join(ctx, r)
	cs := []engine.Claim{c}
	e.show(cs)
	return cs[0], err
}

func (e *tickets) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	cs, err := e.dialled.Renew(ctx, rs)
	e.show(cs)
	return cs, err
}

func (e *tickets) Watch(ctx context.Context, changed func(engine.Claim)) error {
	return e.dialled.Watch(ctx, func(c engine.Claim) {
		cs := []engine.Claim{c}
		e.show(cs)
		changed(cs[0])
	})
}
