package redlock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// inspectTimeout is how long a majority may take to answer a question about which
// nobody is in a hurry.
const inspectTimeout = time.Second

// inspected is what one master answered to such a question.
type inspected struct {
	ballot
	answer redisconn.Answer
}

// inspect asks all masters, and hands answers on until enough returns true. It
// fails unless a majority answered.
func (e *Engine) inspect(ctx context.Context, s *redisconn.Script, c redisconn.Call, enough func(inspected) bool) error {
	received := ask(e, func(i int, m *master) inspected {
		x := inspected{ballot: ballot{master: i}}
		var answers []redisconn.Answer
		if answers, x.err = m.calls(e.life, false, s, []redisconn.Call{c}); x.err == nil {
			x.answer = answers[0]
			x.err = explain(x.answer.Error(), c.Keys)
		}
		return x
	})
	timer := time.NewTimer(max(inspectTimeout, e.opts.Timeout))
	defer timer.Stop()
	var ballots []ballot
	known := false
	err := receive(ctx, e, received, timer.C, func(x inspected) bool {
		ballots = append(ballots, x.ballot)
		known = enough(x)
		return known
	})
	return e.rest(known, err, ballots)
}

// Revoke implements [engine.Engine]. Only holds that came through leasehold have a ticket;
// those of other programs end by their expiry. A hold without expiry would never end:
// ticket 0 with now removes it. The holder learns of it when it renews.
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := e.checkName(name); err != nil {
		return err
	}
	done, none, foreign := 0, 0, false
	err := e.inspect(ctx, e.scripts.revoke, redisconn.Call{Keys: e.keys(name), Args: []string{decimal(ticket), parts.Flag(now), name}}, func(x inspected) bool {
		n, err := x.answer.AsInt64()
		switch {
		case x.err != nil || err != nil:
		case n == 1:
			done++
		case x.answer.Indeterminate == nil: // else perhaps the first attempt ended it
			none++
			foreign = foreign || n == 2
		}
		return done >= e.majority || none > len(e.masters)-e.majority
	})
	switch {
	case err != nil:
		return err
	case done >= e.majority:
		return nil
	case foreign:
		return fmt.Errorf("%s: %w", e.opts.Layout.unremovable(), engine.ErrNoClaim)
	}
	return engine.ErrNoClaim
}

// holder is what masters say of one value of a lock.
type holder struct {
	masters int
	claim   engine.Claim
}

// Queue implements [engine.Engine]: who has a majority of the masters holds.
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	l := engine.Queue{Name: name}
	holders := map[string]*holder{}
	answered := 0
	err := e.inspect(ctx, e.scripts.read, redisconn.Call{Keys: e.keys(name)}, func(x inspected) bool {
		if x.err != nil {
			return false
		}
		value, c, taken, err := e.holding(name, x.answer)
		if err != nil {
			return false
		}
		if answered++; taken {
			known := value
			if c.Ticket == 0 {
				known = e.opts.Layout.same(value)
			}
			h := holders[known]
			if h == nil {
				h = &holder{claim: c}
				holders[known] = h
			}
			h.masters++
			// Where a renewal took it again the owner is not known.
			if c.Ticket > h.claim.Ticket || c.Ticket == h.claim.Ticket && h.claim.Owner.Text() == "" {
				h.claim.Ticket, h.claim.Owner = c.Ticket, c.Owner
			}
			h.claim.Revoked = h.claim.Revoked || c.Revoked
			if h.masters >= e.majority {
				l.Limit, l.Claims = engine.Max, []engine.Claim{h.claim}
				return true
			}
		}
		rest := len(e.masters) - answered
		for _, h := range holders {
			if h.masters+rest >= e.majority {
				return false
			}
		}
		return answered >= e.majority && rest < e.majority
	})
	return l, err
}

// holding reads what read.lua answers: whether the lock is taken, its value, which another
// program may have left empty, and who it is.
func (e *Engine) holding(name string, a redisconn.Answer) (value string, c engine.Claim, taken bool, err error) {
	list, err := a.ToArray()
	if err != nil || len(list) == 0 {
		return "", c, false, err
	}
	if len(list) != 5 {
		return "", c, false, fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %d values", len(list))
	}
	value, err1 := list[0].ToString()
	left, err2 := list[1].AsInt64()
	ticket, err3 := list[2].AsUint64()
	owner, err4 := list[3].ToString()
	revoked, err5 := list[4].AsInt64()
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return "", c, false, fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %w", err)
	}
	c = engine.Claim{
		Name: name, Ticket: ticket, Owner: engine.ParseOwner(owner), Permits: engine.Max, Limit: engine.Max,
		State: engine.Held, Revoked: revoked == 1, TTL: lifetime(max(left, 1)), // 0: less than one, not none
	}
	if ticket == 0 {
		c.Owner = engine.Owner{Label: e.opts.Layout.stranger(value)}
	}
	if left < 0 {
		c.TTL = 0 // it has no expiry
	}
	return value, c, true, nil
}

// Queues implements [engine.Engine]. It finds the names that leasehold has used within the
// last hours: it cannot know whether any other string is a lock. It walks a majority of
// the masters: every held lock is on one of them.
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		seen := map[string]bool{}
		walked := 0
		var said []ballot
		for i, m := range e.masters {
			if walked == e.majority {
				return
			}
			on, err := e.walk(ctx, m, prefix, seen, yield)
			switch {
			case err != nil && ctx.Err() == nil:
				said = append(said, ballot{master: i, err: err})
			case err != nil:
				yield(engine.Queue{}, err)
				return
			case !on:
				return
			default:
				walked++
				said = append(said, ballot{master: i})
			}
		}
		if walked < e.majority {
			yield(engine.Queue{}, e.unavailable(said))
		}
	}
}

// walk yields the queues of names that one master knows and were not seen yet.
func (e *Engine) walk(ctx context.Context, m *master, prefix string, seen map[string]bool, yield func(engine.Queue, error) bool) (on bool, err error) {
	c, err := m.enter(false)
	if err != nil {
		return false, err
	}
	m.leave(nil) // it is asked for as long as it takes, and owes nothing
	begins := e.opts.Layout.beside() + "b:" + e.opts.Prefix
	for keys, err := range c.Scan(ctx, redisconn.Literal(begins)+"*", "") {
		if err != nil {
			return false, err
		}
		for _, key := range keys {
			name, ok := strings.CutPrefix(key, begins)
			if !ok || seen[name] || !strings.HasPrefix(name, prefix) || engine.CheckName(name) != nil {
				continue
			}
			l, err := e.Queue(ctx, name)
			if err != nil && !errors.Is(err, redisconn.ErrForeign) {
				return false, err // not seen: another master that knows the name has it read again
			}
			seen[name] = true
			if err == nil && len(l.Claims) > 0 && !yield(l, nil) {
				return false, nil
			}
		}
	}
	return true, nil
}
