package claims

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
)

// A fingerprint is equal for states that go on alike: times count from now, a
// claim is known by its place and not by its ID, a ticket by how far it is from
// the last one, and what is under way is a set.

type fingerprint [16]byte

type printer struct {
	w         *world
	buf       []byte
	ids       []engine.ID
	claims    []*Claim // of the client that is written
	callersOf []*callers
}

// old is a time so long ago that it makes no difference how long.
const old = -30 * time.Second

func (w *world) fingerprint(p *printer) fingerprint {
	p.w, p.buf, p.ids = w, p.buf[:0], p.ids[:0]
	p.num(w.faults, w.quits, w.revokes)
	for _, c := range w.clients {
		p.client(c)
	}
	for i := range w.queues {
		l := &w.queues[i]
		p.num(len(l.Places), int(l.Limit), int(l.Last-w.tokens[i]>>engine.HandoffBits), int(w.tokens[i]&(1<<engine.HandoffBits-1)))
		for _, pl := range l.Places {
			p.id(pl.ID)
			p.num(int(l.Last-pl.Ticket), int(pl.Permits))
			p.time(pl.Deadline)
			p.holds(engine.ParseOwner(pl.Owner))
			p.bools(pl.Held, pl.Detached, pl.Revoked, pl.Notified, w.fate(pl.ID).unheard)
			if !pl.Held {
				p.time(max(w.fate(pl.ID).joined, w.now-Believe))
			}
		}
		// The turns of a claim that nobody waits behind begin anew.
		if t := &w.turns[i]; t.waiter != (engine.ID{}) {
			if waiter, _ := w.behind(w.names[i], t.claim); waiter == t.waiter {
				p.id(t.claim)
				p.bools(t.notified)
				if p.num(t.handedOff); t.handedOff > 0 {
					p.time(max(t.first, w.now-HandoffTime))
				}
			}
		}
	}
	p.set(len(w.strays), func(i int) { p.call(w.strays[i]) })
	sum := sha256.Sum256(p.buf)
	return fingerprint(sum[:16])
}

func (p *printer) num(ns ...int) {
	for _, n := range ns {
		p.buf = binary.AppendVarint(p.buf, int64(n))
	}
}

func (p *printer) bools(bs ...bool) {
	n := 0
	for _, b := range bs {
		n *= 2
		if b {
			n++
		}
	}
	p.num(n)
}

func (p *printer) time(t time.Duration) {
	switch {
	case t == never:
		p.buf = append(p.buf, 1)
	default:
		p.buf = binary.AppendVarint(p.buf, int64(max(t-p.w.now, old)))
	}
}

// whenKnown is time for one that may be unknown, or make no difference.
func (p *printer) whenKnown(t time.Duration, matters bool) {
	if known := matters && t > 0; known {
		p.bools(known)
		p.time(t)
	} else {
		p.bools(known)
	}
}

func (p *printer) id(id engine.ID) {
	if id == (engine.ID{}) {
		p.num(-1)
		return
	}
	i := slices.Index(p.ids, id)
	if i < 0 {
		i = len(p.ids)
		p.ids = append(p.ids, id)
	}
	p.num(i, int(id[0]))
}

func (p *printer) ticket(name string, t uint64) {
	if t == 0 {
		p.num(-1)
		return
	}
	p.num(int(p.w.line(name).Last - t))
}

func (p *printer) claim(cl *Claim) {
	if cl == nil {
		p.num(-1)
		return
	}
	p.num(slices.Index(p.claims, cl))
}

func (p *printer) callers(q *callers) {
	if q == nil {
		p.num(-1)
		return
	}
	i := slices.Index(p.callersOf, q)
	if i < 0 {
		i = len(p.callersOf)
		p.callersOf = append(p.callersOf, q)
	}
	p.num(i)
}

// set writes n things in an order that does not depend on theirs.
func (p *printer) set(n int, write func(int)) {
	p.num(n)
	switch n {
	case 0:
	case 1:
		write(0)
	default:
		from := len(p.buf)
		parts := make([]string, n)
		for i := range parts {
			write(i)
			parts[i] = string(p.buf[from:])
			p.buf = p.buf[:from]
		}
		slices.Sort(parts)
		for _, part := range parts {
			p.num(len(part))
			p.buf = append(p.buf, part...)
		}
	}
}

func (p *printer) client(c *client) {
	m := c.machine
	p.claims, p.callersOf = p.claims[:0], p.callersOf[:0]
	for _, cl := range m.claims {
		p.claims = append(p.claims, cl)
	}
	slices.SortFunc(p.claims, func(a, b *Claim) int { return int(a.serial) - int(b.serial) })
	p.bools(c.subscribed, c.paused, c.closed, m.closed, m.down)
	p.num(int(m.firstTTL), len(m.callersOf), len(p.claims), m.trying, len(m.tries))
	for _, cl := range p.claims {
		p.aClaim(cl)
	}
	for _, cl := range m.tries {
		p.claim(cl)
	}
	for _, a := range c.actors {
		p.actor(a)
	}
	for i := 0; i < len(p.callersOf); i++ {
		p.aQueue(m, p.callersOf[i])
	}
	p.set(len(c.calls), func(i int) { p.call(c.calls[i]) })
	p.set(len(c.notifications), func(i int) {
		n := &c.notifications[i]
		p.bools(n.begin, n.late)
		p.reply(n.claim)
	})
}

func (p *printer) aClaim(cl *Claim) {
	p.callers(cl.callers)
	p.claim(cl.old)
	p.id(cl.id)
	p.id(cl.replaces)
	p.ticket(cl.Name(), cl.ticket)
	p.time(cl.trustedUntil())
	p.time(cl.proof)
	p.time(cl.born)
	p.time(cl.heldAt)
	p.num(int(cl.permits), int(cl.granted), int(cl.waitTTL), int(cl.minHold), int(cl.maxHold))
	if p.num(int(cl.index)); cl.index >= 0 {
		p.time(cl.due)
	}
	p.whenKnown(cl.sent, cl.phase.wanted())
	p.whenKnown(cl.again, cl.phase.wanted() || cl.phase == Indeterminate || cl.phase == Leaving || cl.phase == Abandoned)
	p.whenKnown(cl.advised, cl.phase == Waiting)
	switch cl.phase {
	case Idle, Lingering, Leaving, Abandoned:
		p.time(cl.until)
	}
	ct := &cl.contention
	p.time(ct.received)
	p.time(ct.alone)
	p.time(ct.since)
	p.num(int(ct.budget))
	p.num(int(cl.users), int(cl.handoffs), int(min(cl.retries, 5)), int(cl.inflight), int(cl.phase))
	p.bools(ct.yes, cl.noWait, cl.noRenew, cl.detached, cl.asked, cl.raised, cl.receivedHeld, cl.receivedRevoked, cl.poll, cl.tries)
	for l := cl.leases; l != nil; l = l.next {
		p.num(l.Tag.(*actor).index)
	}
	if cl.waiter != nil {
		p.num(cl.waiter.Tag.(*actor).index)
		p.time(cl.waiter.unlockedAt)
	}
}

func (p *printer) aQueue(m *Machine, q *callers) {
	p.id(q.orphan)
	p.claim(q.current)
	p.bools(q.solo, q.err != nil, m.find(q.key) == q)
	p.num(int(min(q.gone, 7))) // more make no difference: see backoff
	p.num(int(q.claims), int(q.key.permits), p.w.nameIndex(q.key.name))
	for c := q.head; c != nil; c = c.next {
		p.num(c.Tag.(*actor).index)
	}
}

func (p *printer) actor(a *actor) {
	p.num(int(a.state), a.rounds)
	switch a.state {
	case comes, waits:
		p.callers(a.caller.callers)
		p.bools(a.mayQuit)
		if o := a.lease.Outer; o != nil {
			p.num(int(o.Lease.hold.count))
			p.bools(o.Lease.ended)
		}
		p.detector(a.detector)
	case holds, unlocks:
		l := a.lease
		p.claim(l.claim)
		if !slices.Contains(p.claims, l.claim) {
			p.id(l.claim.id)
			p.num(int(l.claim.phase))
			p.time(l.claim.trustedUntil())
			p.time(l.claim.heldAt)
		}
		p.ticket(l.claim.Name(), l.Token>>engine.HandoffBits)
		p.num(int(l.Token&(1<<engine.HandoffBits-1)), int(l.hold.count), int(l.lost))
		p.bools(l.hold == &l.own, l.notified, l.ended, l.Over(), a.lost, a.proven, a.past)
	}
}

func (p *printer) reply(got engine.Claim) {
	if got.ID == (engine.ID{}) {
		return
	}
	p.id(got.ID)
	p.num(int(got.State), int(got.TTL), int(got.PollAfter))
	p.bools(got.Contended, got.Revoked)
	p.ticket(got.Name, got.Ticket)
}

func (p *printer) call(q *call) {
	p.num(int(q.act), q.client)
	p.time(q.s)
	p.time(q.bound)
	p.bools(q.slow, q.arrived, q.err != nil, q.maker != nil, q.lease != nil)
	if q.act == Join {
		p.id(q.request.ID)
		p.id(q.request.Replaces)
		p.holds(q.request.Owner)
		p.num(int(q.request.WaitTTL))
		p.time(max(p.w.fate(q.request.ID).abandon, p.w.now))
	}
	if q.maker != nil {
		p.num(q.maker.Tag.(*actor).index)
	}
	if q.lease != nil {
		p.num(q.lease.Tag.(*actor).index)
	}
	if q.comer != nil {
		p.num(-1, q.comer.index)
	}
	for _, r := range q.asked {
		p.id(r.ID)
		p.num(int(r.Want))
	}
	for _, l := range q.left {
		p.id(l.ID)
	}
	for _, got := range q.got {
		p.reply(got)
	}
}

// A field that the fingerprint does not know would make states equal that are
// not, and the exploration would not see what lies behind them.
func TestFingerprintKnowsEveryField(t *testing.T) {
	for _, is := range []struct {
		of   any
		want []string
	}{
		{Machine{}, []string{"cfg", "closed", "callersOf", "claims", "timers", "tries", "trying", "maxTries", "firstTTL", "down", "downAt", "downErr", "failed", "serial", "outputs", "at"}},
		{Claim{}, []string{"callers", "old", "Owner", "id", "replaces", "ticket", "permits", "limit", "trusted", "granted", "proof", "waitTTL",
			"born", "minHold", "maxHold", "heldAt", "sent", "again", "advised", "until", "due", "contention", "leases", "serial", "waiter", "index", "users",
			"handoffs", "retries", "inflight", "phase", "noWait", "noRenew", "detached", "asked", "raised", "tries", "poll", "receivedHeld", "receivedRevoked"}},
		{contention{}, []string{"received", "alone", "since", "budget", "yes"}},
		{callers{}, []string{"key", "head", "tail", "current", "orphan", "err", "claims", "gone", "solo", "sibling"}},
		{Caller{}, []string{"Want", "Lease", "Holds", "Tag", "Ticket", "Silent", "Err", "callers", "prev", "next"}},
		{Lease{}, []string{"Outer", "Tag", "Token", "HeldAt", "machine", "claim", "hold", "own", "prev", "next", "over", "lost", "notified", "ended", "unlockedAt"}},
		{hold{}, []string{"count"}},
	} {
		typ := reflect.TypeOf(is.of)
		var have []string
		for i := range typ.NumField() {
			have = append(have, typ.Field(i).Name)
		}
		if !slices.Equal(have, is.want) {
			t.Errorf("%v has the fields %q: have explore_fingerprint_test.go write what is new, then name it here", typ, have)
		}
	}
}
