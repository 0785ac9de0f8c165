package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"leasehold/engine/internal/session"
	"leasehold/internal/boottime"
)

// maxWatched bounds how many claims one waiter watches. More may be ahead of it
// where a semaphore has many permits; it then watches the foremost, and finds the
// rest when it is renewed, within about four seconds.
const maxWatched = 64

// maxMissed bounds how many looks at what a watch missed are under way at once: a
// crowd begins as many watches.
const maxMissed = 16

// attend waits for the turn of a claim that was found waiting at i in a queue read at
// that revision, unless it is waited for already.
func (e *Engine) attend(c *claim, l line, i int, revision int64) {
	ctx, cancel := context.WithCancel(e.life)
	e.table.mu.Lock()
	if c.Phase != session.Waiting || c.attended != nil {
		e.table.mu.Unlock()
		cancel()
		return
	}
	c.attended = cancel
	e.table.mu.Unlock()
	if i == l.held {
		e.begun(func(context.Context) { e.notifyHolders(ctx, l) })
	}
	// Of the queue only those are kept that it waits for: queues may be long, and there
	// are as many waiters.
	ahead := l.blockers(i)
	if !e.begun(func(context.Context) {
		defer func() {
			e.table.mu.Lock()
			defer e.table.mu.Unlock()
			// Others take it for ended only under the mutex, so that a waiter is
			// never without one of either: this goroutine, or the next Renew,
			// which begins another.
			if ctx.Err() == nil {
				c.attended = nil
			}
			cancel()
		}()
		e.await(ctx, c, ahead, revision)
	}) {
		cancel()
	}
}

// await follows the queue until the claim does not wait any more, or until etcd
// does not answer: then the next Renew sees how things stand, and begins anew.
func (e *Engine) await(ctx context.Context, c *claim, ahead []session.Node, revision int64) {
	for replaced := false; ; {
		if len(ahead) > maxWatched {
			ahead = ahead[len(ahead)-maxWatched:] // the foremost: they are listed from the nearest on
		}
		if !replaced && !e.someLeft(ctx, ahead, revision) {
			return
		}
		e.table.mu.Lock()
		ticket := c.Ticket
		e.table.mu.Unlock()
		l, at, err := e.lookAt(ctx, reading{name: c.Name}, ticket)
		if err != nil {
			return
		}
		i := l.find(c.key, ticket)
		if i < 0 {
			return // gone: who asks is told so
		}
		if i < l.held {
			if c.Detached {
				err = e.proveOwn(ctx, l.places[i].lease, boottime.Now())
			} else {
				err = e.prove(ctx, c.class.Session, l.places[i].lease, boottime.Now())
			}
			if errors.Is(err, errReplaced) && !replaced {
				replaced = true // its key shows the new one
				continue
			}
			if err != nil {
				return
			}
		}
		replaced = false
		if !e.table.promote(c, l) {
			return
		}
		e.table.mu.Lock()
		e.table.m.News(c)
		waits := c.Phase == session.Waiting
		e.table.mu.Unlock()
		if !waits {
			return
		}
		ahead, revision = l.blockers(i), at
	}
}

// someLeft returns once one of the claims may have gone, and false if that could
// not be watched any more.
//
// They stood at that revision. A watch that begins there would be served
// late: etcd looks through watches that begin in the past once in 100 ms. So they
// begin with the next revision, whichever that is, and then it is looked once
// whether they still stand. If nothing happened at all up to there, not even
// that is needed.
func (e *Engine) someLeft(ctx context.Context, ahead []session.Node, revision int64) bool {
	ctx, cancel := context.WithCancel(e.watching(ctx))
	defer cancel()
	type received struct{ began, left, alive bool }
	said := make(chan received, 2*len(ahead)) // each says at most two things
	for _, p := range ahead {
		go func() {
			events := e.client.Watch(ctx, p.Key, clientv3.WithFilterPut(), clientv3.WithCreatedNotify())
			for r := range events {
				switch {
				case r.Err() != nil:
					e.streams.Add(1)
					said <- received{}
					return
				case r.Created:
					said <- received{began: true, left: r.Header.Revision > revision, alive: true}
				case len(r.Events) > 0:
					said <- received{left: true, alive: true}
					return
				}
			}
			said <- received{}
		}()
	}
	watches := beginning{of: len(ahead)}
	for {
		select {
		case h := <-said:
			switch {
			case !h.alive:
				return false
			case h.began:
				if !watches.began(h.left) {
					continue
				}
			default:
				return true
			}
			// All watches stand: what is read now shows what they missed, and they
			// hear the rest.
			var ops []clientv3.Op
			for _, p := range ahead {
				ops = append(ops, standing(p))
			}
			if e.missed.lock(ctx) != nil {
				return false
			}
			r, err := e.read(ctx, clientv3.OpTxn(nil, ops, nil))
			e.missed.unlock()
			if err != nil {
				return false
			}
			for i, one := range r.Txn().Responses {
				if !stood(ahead[i], one.GetResponseRange()) {
					return true
				}
			}
		case <-ctx.Done():
			return false
		}
	}
}

// beginning is how many watches stand of those that are to, and whether one of them began
// after something had happened.
type beginning struct {
	of, stand int
	late      bool
}

// began takes in that one stands, and reports whether to look at what they missed: all
// stand, and one began late.
func (b *beginning) began(late bool) bool {
	b.stand++
	b.late = b.late || late
	return b.stand == b.of && b.late
}

// watching is the context of watches. All that have the same metadata share a
// stream, which has the token that the user had when it was opened: once that has
// expired, etcd refuses every further watch there. So after each that failed the
// next ones go on another stream.
func (e *Engine) watching(ctx context.Context) context.Context {
	ctx = clientv3.WithRequireLeader(ctx)
	return metadata.AppendToOutgoingContext(ctx, "leasehold-stream", strconv.FormatInt(e.streams.Load(), 10))
}

// notifyHolders tells who holds in a queue that somebody wants the name: each once,
// until it has renewed. The first waiter does that, and who was refused.
func (e *Engine) notifyHolders(ctx context.Context, l line) {
	for some := range slices.Chunk(l.places[:l.held], atOnce) {
		var ops []clientv3.Op
		for _, p := range some {
			if p.revoked {
				continue
			}
			notification := e.keys.notification(p.client, p.key)
			// The notification hangs on the lease of the holder's claim, and goes with it.
			ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{
				stands(p.node()),
				clientv3.Compare(clientv3.CreateRevision(notification), "=", 0),
			}, []clientv3.Op{clientv3.OpPut(notification, text(contended, p.ticket), clientv3.WithLease(p.lease))}, nil))
		}
		// Whatever goes wrong, the holders hear it when they renew.
		if _, err := e.inOne(ctx, ops); err != nil && ctx.Err() != nil {
			return
		}
	}
}

// What notifications say, followed by the ticket of the claim.
const (
	contended = "contended"
	revoked   = "evicted"
)

func text(what string, ticket uint64) string { return fmt.Sprintf("%s %d", what, ticket) }

// listen hears what others have to tell this client: one subscription, for as long as it
// stands, its Watch runs and the engine lives.
func (e *Engine) listen(ctx, life context.Context) error {
	once, stop := context.WithCancel(e.watching(ctx))
	defer stop()
	defer context.AfterFunc(life, stop)()
	e.mu.Lock()
	e.hearing = stop
	e.mu.Unlock()
	for r := range e.client.Watch(once, e.keys.notifications(e.name), clientv3.WithPrefix(), clientv3.WithFilterDelete(), clientv3.WithCreatedNotify()) {
		if r.Created {
			e.mail.PostAll()
		}
		for _, event := range r.Events {
			e.receive(event.Kv)
		}
		if r.Err() != nil {
			e.streams.Add(1)
			return explain(r.Err())
		}
	}
	return errors.New("the subscription to notifications ended")
}

// deafen has the subscription begin anew.
func (e *Engine) deafen() {
	e.mu.Lock()
	stop := e.hearing
	e.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// hear takes one notification.
func (e *Engine) receive(kv *mvccpb.KeyValue) {
	t := &e.table
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.keyed[e.keys.recorded(e.name, string(kv.Key))]
	switch {
	case c == nil: // it left
	case c.Ticket == 0: // not answered yet: it may be about who had the key before
		c.early = string(kv.Value)
	default:
		e.received(c, string(kv.Value))
	}
}

// receiveEarly takes the notification that came before the answer to a Join.
func (e *Engine) receiveEarly(c *claim) {
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	if c.early != "" {
		e.received(c, c.early)
		c.early = ""
	}
}

// heard takes in what a notification says of a claim. With the table's mutex held.
func (e *Engine) received(c *claim, notification string) {
	what, number, _ := strings.Cut(notification, " ")
	ticket, err := strconv.ParseUint(number, 10, 64)
	if err != nil || ticket != c.Ticket {
		return // that was another claim, or another incarnation of it
	}
	switch {
	case what == revoked:
		e.table.m.Revoke(c, ticket)
		c.unattend()
	case what == contended && !c.recorded:
		c.recorded = true
		e.table.m.Contend(c, ticket) // one that holds and does not know yet is told with that
	}
}
