package linear

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
	"leasehold/torture/history"
)

// world is one possibility of how a queue stands.
type world struct {
	queue   queue.Queue   // whose claims never expire by themselves
	proved  []proof       // one for each place, in the same order
	now     time.Duration // the moment has passed at which the last claim that ended by itself can have ended
	pending []int         // calls that may still take effect
	done    []int         // calls that took effect and whose answers are in a later window
	owed    []int         // Joins that are in another state yet than they were answered: see steps.go
}

// proof is until when a claim cannot end by itself.
type proof struct {
	claim uint64
	until time.Duration
}

// forever is how long claims live in the queue of a world: this package ends them.
const forever = time.Duration(1 << 61)

// rate and reading are by how much an engine's clock may be faster than the witness's: one
// part in so many, and what it takes to read it. Package leasehold trusts no claim for longer.
const (
	rate    = 100
	reading = 7 * time.Millisecond
)

func (w *world) clone() *world {
	c := *w
	c.queue.Places = slices.Clone(w.queue.Places)
	c.proved, c.pending = slices.Clone(w.proved), slices.Clone(w.pending)
	c.done, c.owed = slices.Clone(w.done), slices.Clone(w.owed)
	return &c
}

func id(claim uint64) (id engine.ID) {
	binary.BigEndian.PutUint64(id[:], claim)
	return id
}

func number(id engine.ID) uint64 { return binary.BigEndian.Uint64(id[:]) }

func (w *world) place(claim uint64) *queue.Place {
	if i := w.at(claim); i >= 0 {
		return &w.queue.Places[i]
	}
	return nil
}

// at is where a claim stands in the queue, or -1.
func (w *world) at(claim uint64) int {
	return slices.IndexFunc(w.queue.Places, func(p queue.Place) bool { return p.ID == id(claim) })
}

// prove notes in w what a call has granted, from its start. Nothing is proven of a client
// that may have ended.
func (n *name) prove(w *world, c *call, granted time.Duration) {
	until := c.start + granted - granted/rate - reading
	if death, ended := n.deaths[c.client]; ended {
		until = min(until, death)
	}
	for i := range w.proved {
		if w.proved[i].claim == c.claim {
			w.proved[i].until = max(w.proved[i].until, until)
			return
		}
	}
	w.proved = append(w.proved, proof{c.claim, until})
}

// settle forgets the proofs of claims that are not there any more.
func (w *world) settle() *world {
	w.proved = slices.DeleteFunc(w.proved, func(p proof) bool { return w.place(p.claim) == nil })
	return w
}

// without is the world in which a pending call is not pending any more.
func (w *world) without(i int) *world {
	v := w.clone()
	v.pending = slices.DeleteFunc(v.pending, func(k int) bool { return k == i })
	return v
}

func (w *world) end(claim uint64) *world {
	c := w.clone()
	c.queue.Leave(0, "", id(claim))
	return c.settle()
}

// key is the world as bytes: what stands first is the same for worlds that one can compare.
func (w *world) key() []byte {
	b := w.places()
	b = binary.AppendUvarint(b, w.queue.Last)
	b = binary.AppendVarint(b, int64(w.now))
	for _, p := range w.proved {
		b = binary.AppendVarint(b, int64(p.until))
	}
	for _, i := range w.pending {
		b = binary.AppendUvarint(b, uint64(i))
	}
	return b
}

func (w *world) places() []byte {
	var b []byte
	for i := range w.queue.Places {
		p := &w.queue.Places[i]
		flags := byte(0)
		if p.Held {
			flags |= 1
		}
		if p.Revoked {
			flags |= 2
		}
		b = binary.AppendUvarint(b, number(p.ID))
		b = binary.AppendUvarint(b, p.Ticket)
		b = append(b, flags)
	}
	b = append(b, 0)
	for _, i := range w.done {
		b = binary.AppendUvarint(b, uint64(i)+1)
	}
	b = append(b, 0)
	for _, i := range w.owed {
		b = binary.AppendUvarint(b, uint64(i)+1)
	}
	return append(b, 0)
}

// allows is whether w can do all that v can, if their places are the same.
func (w *world) allows(v *world) bool {
	if w.queue.Last > v.queue.Last || w.now > v.now {
		return false
	}
	for i, p := range w.proved {
		if p.until > v.proved[i].until {
			return false
		}
	}
	for _, i := range v.pending {
		if !slices.Contains(w.pending, i) {
			return false
		}
	}
	return true
}

// apply has a call take effect, with the answer that it got, and returns what becomes of the
// world: nothing if it cannot give that answer.
func (n *name) apply(w *world, i int) *world {
	c := &n.calls[i]
	if c.result == history.Refused {
		if !n.disagrees(w, c) {
			return nil
		}
		return w
	}
	w = w.clone()
	there := w.place(c.claim) != nil
	switch c.ask.Method {
	case join:
		return n.joins(w, i, there)
	case renew:
		got, _ := w.queue.Renew(0, engine.Renewal{ID: id(c.claim), Want: forever})
		if !n.says(w, i, got.State, there) || c.got.Ticket != 0 && got.Ticket != 0 && c.got.Ticket != got.Ticket {
			return nil
		}
		if got.State != engine.Gone {
			n.prove(w, c, c.got.Granted)
		}
	case leave:
		if lost := n.misfit(w, c); !there && c.got.State == waiting && lost >= 0 {
			return w.without(lost)
		}
		found, _ := w.queue.Leave(0, "", id(c.claim))
		if !n.says(w, i, found.State, there) {
			return nil
		}
	case revoke:
		_, err := w.queue.Revoke(0, "", c.ask.Ticket, c.now)
		if errors.Is(err, engine.ErrNoClaim) != (c.result == history.Gone) {
			return nil
		}
	}
	return w.settle()
}

// disagrees is whether the Join c may be refused in w. One that is refused for its limit needs
// somebody besides the claim that it replaces, who has another limit. Of an engine of several
// steps or without order, w does not have all who may be there.
func (n *name) disagrees(w *world, c *call) bool {
	return c.have == 0 || n.steps || n.forgets || w.queue.Limit != c.limit &&
		slices.ContainsFunc(w.queue.Places, func(p queue.Place) bool { return p.ID != id(c.replaces) })
}

func (n *name) joins(w *world, i int, there bool) *world {
	c := &n.calls[i]
	switch {
	case n.forgets && c.got.State == waiting && there:
		return nil
	case n.forgets && c.got.State == waiting, !there && n.refuses(w, c):
		return w
	case n.withdraws(w, c):
		return w.end(c.claim)
	}
	got, err := n.join(w, c, c.got.Ticket)
	if err != nil || !n.says(w, i, got.State, there) {
		return nil
	}
	if got.State != engine.Gone {
		if c.got.Ticket != 0 && got.Ticket != c.got.Ticket {
			return nil
		}
		n.prove(w, c, cmp.Or(c.got.Granted, c.ask.WaitTTL))
	}
	return w.settle()
}

func (n *name) join(w *world, c *call, ticket uint64) (engine.Claim, error) {
	got, _, err := w.queue.Join(0, ticket, "", engine.Request{
		ID: id(c.claim), Permits: c.permits, Limit: c.limit, WaitTTL: forever,
		NoWait: c.ask.NoWait && !n.steps || n.forgets, Replaces: id(c.replaces),
	})
	return got, err
}

// arrive has a call take effect whose answer is not known. It returns all that can become of
// the world; none if nothing changes that matters.
func (n *name) arrive(w *world, i int) (out []*world) {
	c := &n.calls[i]
	switch c.ask.Method {
	case revoke:
		if v := w.without(i); slices.ContainsFunc(v.queue.Places, func(p queue.Place) bool { return p.Ticket == c.ask.Ticket }) {
			_, _ = v.queue.Revoke(0, "", c.ask.Ticket, c.now)
			out = append(out, v.settle())
		}
	case join:
		if w.place(c.claim) != nil {
			return nil
		}
		if v := n.replacedInVain(w, c); v != nil {
			out = append(out, v)
		}
		// If an answer tells its ticket, it can only be that one.
		for _, ticket := range append([]uint64{0}, n.tickets[c.claim]...) {
			if ticket != 0 && ticket <= w.queue.Last {
				continue
			}
			v := w.without(i)
			if got, err := n.join(v, c, ticket); err == nil && got.State != engine.Gone {
				n.prove(v, c, c.ask.WaitTTL)
				out = append(out, v.settle())
			}
		}
	}
	return out
}

// useless is whether a pending call cannot change anything any more, after the event i: what
// it would end is gone for good.
func (n *name) useless(w *world, pending, i int) bool {
	c := &n.calls[pending]
	if c.ask.Method != leave || w.place(c.claim) != nil || n.joined[c.claim] >= i {
		return false
	}
	return !slices.ContainsFunc(w.pending, func(k int) bool {
		return n.calls[k].ask.Method == join && n.calls[k].claim == c.claim
	})
}
