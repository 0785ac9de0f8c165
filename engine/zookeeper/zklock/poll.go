package zklock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/zookeeper/internal/nodes"
)

// look finds out what a claim is now, if anything has changed since that was known:
// it reads its node and lists the queue, both with a watch where one is needed, and
// goes on until it holds or watches what it waits for. joining says that Join asks:
// unless that was promoted before, the claim may still be refused, which is then the
// error.
//
// Every watch is noted before it is asked for, so that none can fire unseen; what
// fires meanwhile sets a mark (stale, unread) after it was cleared here, and is
// looked at once more.
func (e *Engine) look(ctx context.Context, c *claim, joining bool) (err error) {
	select { // one at a time: who comes second has the answer of the first
	case c.looking <- struct{}{}:
		defer func() { <-c.looking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		if joining && err == nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			c.admitted = true
		}
	}()
	for {
		e.mu.Lock()
		joining := joining && !c.admitted
		stale, unread, owes, holds := c.stale, c.unread, c.owes, c.phase == holding
		if c.phase != waiting && !holds || !stale && !unread && !owes {
			e.mu.Unlock()
			return nil
		}
		c.stale, c.unread = false, false
		e.mu.Unlock()
		switch {
		case stale && unread: // two requests, one journey
			read := make(chan error, 1)
			go func() { read <- e.readOwn(ctx, c) }()
			err = errors.Join(e.readQueue(ctx, c, joining), <-read)
		case unread:
			err = e.readOwn(ctx, c)
		case stale:
			err = e.readQueue(ctx, c, joining)
		default:
			err = e.wake(ctx, c)
		}
		if err != nil {
			e.mu.Lock()
			c.stale, c.unread = c.stale || stale, c.unread || unread
			e.mu.Unlock()
			return err
		}
	}
}

// readOwn reads a claim's node, with a watch: whose it is, and whether somebody marked
// it.
func (e *Engine) readOwn(ctx context.Context, c *claim) error {
	own, err := e.getWatched(ctx, c.path())
	if errors.Is(err, zk.ErrNoNode) {
		e.vanished(c)
		return nil
	}
	if err != nil {
		return explain(err, c.path())
	}
	now, _ := e.link.current()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.placed() {
		return nil // whoever removes it goes by what was known then
	}
	c.session, c.ticket, c.version = own.stat.EphemeralOwner, uint64(own.stat.Czxid), own.stat.Version
	switch {
	case now.id != 0 && c.session != now.id:
		e.endLocked(c, false) // it was made in a session that has ended since
	case read(own.data).Revoked:
		c.phase = marked
		e.unwatchLocked(c)
		e.news.notification(e.reportLocked(c))
	}
	return nil
}

// vanished: the node of a claim is not there any more. The claim's session stands,
// or this would not have been answered in it: so somebody removed it.
func (e *Engine) vanished(c *claim) {
	now, _ := e.link.current()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.endLocked(c, c.session != 0 && c.session == now.id)
}

// endLocked ends a claim that stood in the queue, and tells its client.
func (e *Engine) endLocked(c *claim, revoked bool) {
	if !c.placed() {
		return // its client knows
	}
	c.revoked = revoked
	e.retireLocked(c)
	e.goneLocked(c)
	e.news.notification(e.reportLocked(c))
}

// readQueue lists the queue and lets the rule decide. A list is asked for with a
// watch where any change of the queue matters: to a holder that has lasted (see promote),
// and to the first of those who wait for permits.
func (e *Engine) readQueue(ctx context.Context, c *claim, joining bool) error {
	e.mu.Lock()
	watched := c.phase == holding && c.lasts || c.watches == c.parent
	ticket, first := c.ticket, c.first
	c.first = nil
	e.mu.Unlock()
	var there listed
	var err error
	switch {
	case first != nil:
		there = *first
	case watched:
		there, err = e.listWatched(ctx, c.parent)
	default:
		there, err = e.list(ctx, c.parent)
	}
	if errors.Is(err, zk.ErrNoNode) {
		e.vanished(c)
		return nil
	}
	if err != nil {
		return explain(err, c.parent)
	}
	// Nodes of others that appear later do not concern a claim in the queue: the next
	// Join says so.
	line, err := there.line, e.foreign(c.parent, there)
	i := line.Find(c.node)
	if i < 0 {
		if slices.Contains(there.children, c.node) {
			return err // its number is none
		}
		e.vanished(c)
		return nil
	}
	if joining {
		switch {
		case err != nil:
			return err
		case line[i].Seq > nodes.MaxSeq:
			return engine.Refuse("zookeeper: the numbers of nodes below %s have come to %d, and end soon after: delete that node while nobody is in the queue, and they begin anew", c.parent, line[i].Seq)
		case i >= engine.MaxQueue:
			return engine.Refuse("%d claims are in the queue already, which is the most", i)
		case ticket > engine.MaxTicket:
			return engine.Refuse("zookeeper: transaction %#x is beyond %#x, which is as far as tokens go: this ensemble has had more than two million leaders", ticket, uint64(engine.MaxTicket))
		}
		if err := limits(&c.request, line[0]); err != nil {
			return err
		}
	}
	if line.Held(i) {
		e.holds(c, line, i, watched, there.stat.Pzxid)
		return nil
	}
	if c.request.NoWait {
		return nil // its node goes: nobody would mind a watch, and the library keeps it
	}
	return e.waits(ctx, c, line.WaitsFor(i), line[i].Counted())
}

// holds: as of a list, the claim holds. It does from then on: what stands before it
// can only go. changed is the last transaction that changed the queue.
func (e *Engine) holds(c *claim, line nodes.Queue, i int, watched bool, changed int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !c.placed() || c.phase == marked {
		return
	}
	if c.phase == waiting {
		c.phase, c.owes, c.unheard, c.seen = holding, line.Wakes(i), true, changed
		e.unwatchLocked(c)
		time.AfterFunc(promote, func() { e.promoted(c) })
	}
	switch {
	case line.Contended(i):
		c.contended = true
	case c.request.Permits == c.request.Limit && c.seen != 0 && c.seen != changed:
		// It was alone, so somebody came, and is gone again.
		c.contended = true
	case !c.stale: // else somebody came after this list was made, and was told of
		c.contended = false
	}
	if watched {
		c.seen = 0 // what changes from now on is told
	}
}

// promote is how long a claim has held before it listens for what comes behind it, and
// for its revocation unless it has waited. A shorter hold is not worth those requests;
// what came meanwhile is seen then. A Renew does not wait for it.
const promote = 10 * time.Millisecond

// patience is how long a claim has waited before it listens for its revocation, which
// Renew sees in any case. That can wait longer than a holder's: nobody else is kept
// waiting by a claim that went.
const patience = 3 * time.Second

func (e *Engine) promoted(c *claim) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listensLocked(c); c.stale || c.unread {
		e.news.look(c)
	}
}

// listensLocked has a claim listen from its next look on, for its revocation and, if it
// holds, for who comes behind it.
func (e *Engine) listensLocked(c *claim) {
	if !c.placed() || c.lasts {
		return
	}
	if c.phase == holding {
		c.lasts = true
		c.stale = c.stale || !c.contended // else there is nothing to hear
	}
	c.unread = c.unread || !e.listens(watch{c.path(), false})
}

// waits has a claim that waits watch one node, or the queue. A counted one waits for what
// stands before it to hold or to go, and only the second shows when it begins to watch:
// what came to hold between the list and the watch has written to its node already. So
// it lists the queue once more behind its watch. All others wait for a node to go.
func (e *Engine) waits(ctx context.Context, c *claim, node string, counted bool) error {
	target := c.parent
	if node != "" {
		target += "/" + node
	}
	e.mu.Lock()
	if !c.placed() || c.phase == marked || c.watches == target {
		e.mu.Unlock()
		return nil
	}
	e.unwatchLocked(c)
	c.watches = target
	if e.awaited[target] == nil {
		e.awaited[target] = map[*claim]struct{}{}
	}
	e.awaited[target][c] = struct{}{}
	// What is listed behind a watch is minded. The queue's own watch comes with its list.
	c.stale = c.stale || counted || node == ""
	if node == "" {
		e.mu.Unlock()
		return nil
	}
	received := e.listens(watch{target, false})
	e.mu.Unlock()
	if received {
		return nil // somebody here waits for it, or did in vain
	}
	// It may have gone between the list and the watch. Then, and when it is not known
	// whether there is a watch, whoever waits for it here lists the queue again.
	if _, err := e.getWatched(ctx, target); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return explain(err, target)
	}
	return nil
}

// wake writes to the node of a claim that holds, for whoever watches it to see
// whether it still waits.
func (e *Engine) wake(ctx context.Context, c *claim) error {
	e.mu.Lock()
	version := c.version
	data := (&content{Claim: c.uuid, Owner: c.request.Owner}).bytes()
	e.mu.Unlock()
	stat, err := ask(ctx, e.link, func(conn *zk.Conn) (*zk.Stat, error) { return conn.Set(c.path(), data, version) })
	switch {
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrBadVersion):
		// It went, or somebody else wrote to it: whoever watches has seen that.
	case err != nil:
		return explain(err, c.path())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.owes = false; err == nil {
		c.version = max(c.version, stat.Version)
	} else {
		c.unread = true
	}
	return nil
}
