package zklock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/engine/zookeeper/internal/nodes"
)

// look finds out what a claim is now, if anything is due: it reads its node and lists
// the queue, both with a watch where one is needed, and goes on until it holds or watches
// what it waits for. One that was not let into the queue yet may be refused, which is then
// the error.
//
// Every watch is noted before it is asked for, so that none can fire unseen; what
// fires meanwhile is due again after it was taken here, and is looked at once more.
func (e *claimant) look(ctx context.Context, c *claim) error {
	select { // one at a time: who comes second has the answer of the first
	case c.looking <- struct{}{}:
		defer func() { <-c.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		e.mu.Lock()
		due := e.m.Take(c)
		e.mu.Unlock()
		var err error
		switch due {
		case 0:
			return nil
		case session.Queue | session.Own: // two requests, one journey
			read := make(chan error, 1)
			go func() { read <- e.readOwn(ctx, c) }()
			err = errors.Join(e.readQueue(ctx, c), <-read)
		case session.Own:
			err = e.readOwn(ctx, c)
		case session.Queue:
			err = e.readQueue(ctx, c)
		default:
			err = e.wake(ctx, c)
		}
		if err != nil {
			e.mu.Lock()
			e.m.Owe(c, due)
			e.mu.Unlock()
			return err
		}
	}
}

// lookSoon has a Watch look at a claim, soon. The caller holds the mutex.
//
// Each session has its own room, since one whose server is silent is no other's affair: a look
// there lasts until the connection breaks, up to two thirds of the session later. Claims wait for
// room without a goroutine each, and each of them once, however often it is to be looked at.
func (e *claimant) lookSoon(c *claim) {
	if !e.watching {
		return
	}
	e.looks[c] = struct{}{}
	if e.lookers < atOnce && e.spawn(e.lookForWatch) {
		e.lookers++
	}
}

// lookForWatch looks at one claim after the other until there is none to look at, or until the
// session is closed: from then on every look fails, and may ask for the next.
func (e *claimant) lookForWatch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() { e.lookers-- }()
	for {
		var next *claim
		for next = range e.looks {
			break
		}
		if next == nil || e.life.Err() != nil {
			return
		}
		delete(e.looks, next)
		e.mu.Unlock()
		_ = e.look(e.life, next) // an error means that nothing was learned: Renew looks again
		e.mu.Lock()
		e.m.News(next)
	}
}

// readOwn reads a claim's node, with a watch: whose it is, and whether somebody marked
// it.
func (e *claimant) readOwn(ctx context.Context, c *claim) error {
	own, err := e.getWatched(ctx, c.Key)
	now, _ := e.link.current()
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case errors.Is(err, zk.ErrNoNode):
		e.m.Vanished(c, now.id)
	case err != nil:
		return explain(err, c.Key)
	default:
		c.version = own.stat.Version
		e.m.ReadOwn(c, own.stat.EphemeralOwner, uint64(own.stat.Czxid), read(own.data).Revoked, now.id)
	}
	return nil
}

// readQueue lists the queue and lets the rule decide. A list is asked for with a
// watch where any change of the queue matters: to a holder that has lasted (see promote),
// and to the first of those who wait for permits.
func (e *claimant) readQueue(ctx context.Context, c *claim) error {
	e.mu.Lock()
	watched := c.Phase == session.Settled || slices.Contains(c.Ahead, session.Node{Key: c.Queue})
	joining, ticket, first := c.Phase == session.Placed, c.Ticket, c.first
	c.first = nil
	e.mu.Unlock()
	var there listed
	var err error
	switch {
	case first != nil:
		there = *first
	case watched:
		there, err = e.listWatched(ctx, c.Queue)
	default:
		there, err = e.list(ctx, c.Queue)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return explain(err, c.Queue)
	}
	// Nodes of others that appear later do not concern a claim in the queue: the next
	// Join says so.
	line, foreign := there.line, e.foreign(c.Queue, there)
	i := line.Find(c.node())
	if i < 0 {
		if slices.Contains(there.children, c.node()) {
			return foreign // its number is none
		}
		now, _ := e.link.current()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.m.Vanished(c, now.id)
		return nil
	}
	if joining {
		if err := cmp.Or(foreign, e.full(c, line, i, ticket)); err != nil {
			return err
		}
	}
	v := session.View{Held: line.Held(i), Contended: line.Contended(i), Version: there.stat.Pzxid, Watched: watched}
	if v.Held {
		v.Wakes = line.Wakes(i)
	} else if !c.NoWait { // whose node goes: nobody would mind a watch, and the library keeps it
		v.Ahead, v.Again = []session.Node{{Key: c.Queue}}, true
		if before := line.WaitsFor(i); before != "" {
			v.Ahead[0].Key, v.Again = c.Queue+"/"+before, line[i].Counted()
		}
	}
	e.mu.Lock()
	c.alone = len(there.children) == 1
	was, ahead := c.Phase, c.Ahead
	e.m.Read(c, v)
	if c.Phase == session.Held && was != session.Held {
		time.AfterFunc(promote, func() { e.promoted(c) })
	}
	waits := c.Phase == session.Waiting && len(c.Ahead) > 0 && !slices.Equal(ahead, c.Ahead) && c.Ahead[0].Key != c.Queue &&
		!e.listens(watch{c.Ahead[0].Key, false}) // else somebody here waits for it, or did in vain
	e.mu.Unlock()
	if waits {
		// It may have gone between the list and the watch. Then, and when it is not known
		// whether there is a watch, whoever waits for it here lists the queue again.
		if _, err := e.getWatched(ctx, v.Ahead[0].Key); err != nil && !errors.Is(err, zk.ErrNoNode) {
			return explain(err, v.Ahead[0].Key)
		}
	}
	return nil
}

// full says why a node may not stay at i in a queue.
func (e *claimant) full(c *claim, line nodes.Queue, i int, ticket uint64) error {
	switch {
	case line[i].Seq > nodes.MaxSeq:
		return engine.Refuse("zookeeper: the numbers of nodes below %s have come to %d and end soon: delete that node when its queue is empty, and they begin anew", c.Queue, line[i].Seq)
	case i >= engine.MaxQueue:
		return engine.Refuse("the queue has %d claims already, the most: let fewer callers wait for one name", i)
	case ticket > engine.MaxTicket:
		return engine.Refuse("zookeeper: transaction %#x is beyond %#x, the highest token: this ensemble has had more than two million leaders; set up another", ticket, uint64(engine.MaxTicket))
	}
	return limits(&c.Request, line[0])
}

// promote is how long a claim has held before it listens for what comes behind it, and
// for its revocation unless it has waited. A shorter hold is not worth those requests;
// what came meanwhile is seen then. A Renew does not wait for it.
const promote = 10 * time.Millisecond

// patience is how long a claim has waited before it listens for its revocation, which
// Renew sees in any case. That can wait longer than a holder's: nobody else is kept
// waiting by a claim that went.
const patience = 3 * time.Second

func (e *claimant) promoted(c *claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.m.Settle(c) {
		e.lookSoon(c)
	}
}

// wake writes to the node of a claim that holds, for whoever watches it to see
// whether it still waits.
func (e *claimant) wake(ctx context.Context, c *claim) error {
	e.mu.Lock()
	version := c.version
	data := c.content()
	e.mu.Unlock()
	stat, err := ask(ctx, e.link, func(conn *zk.Conn) (*zk.Stat, error) { return conn.Set(c.Key, data, version) })
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		// It went, or somebody else wrote to it: whoever watches has seen that.
		e.m.Owe(c, session.Own)
	case err != nil:
		return explain(err, c.Key)
	default:
		c.version = max(c.version, stat.Version)
	}
	return nil
}
