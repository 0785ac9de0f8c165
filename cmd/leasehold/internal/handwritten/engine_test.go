package handwritten_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/rueidis"

	"leasehold/cmd/leasehold/internal/handwritten"
	"leasehold/engine"
	"leasehold/engines"
)

// article makes the locks of one article, on a server of its own.
type article struct {
	open func(ctx context.Context, url string) (made func(name, owner string, expiry time.Duration) handwritten.Lock, end func() error, err error)

	// What its users believe of the lock. Without either it is theirs until the expiry, by
	// their own clock: that is more than most articles say, and lets their other faults show.
	forEver bool // it is theirs until they give it back
	waits   bool // Lock does not poll: it waits until it has the lock
}

// onRedis is an article about Redis.
func onRedis(made func(c rueidis.Client, name, owner string, expiry time.Duration) handwritten.Lock) article {
	return article{open: func(_ context.Context, url string) (func(string, string, time.Duration) handwritten.Lock, func() error, error) {
		c, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{strings.TrimPrefix(url, "redis://")}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		})
		if err != nil {
			return nil, nil, err
		}
		return func(name, owner string, expiry time.Duration) handwritten.Lock { return made(c, name, owner, expiry) },
			func() error { c.Close(); return nil }, nil
	}}
}

func (a article) believed() article { a.forEver = true; return a }

var articles = map[string]article{
	"setnx": onRedis(func(c rueidis.Client, name, _ string, _ time.Duration) handwritten.Lock {
		return &handwritten.SetNX{Redis: c, Key: name}
	}).believed(),
	"setnx-expire": onRedis(func(c rueidis.Client, name, _ string, expiry time.Duration) handwritten.Lock {
		return &handwritten.SetNXThenExpire{SetNX: handwritten.SetNX{Redis: c, Key: name}, Expiry: expiry}
	}),
	"multi": onRedis(func(c rueidis.Client, name, _ string, expiry time.Duration) handwritten.Lock {
		return &handwritten.MultiExec{SetNX: handwritten.SetNX{Redis: c, Key: name}, Expiry: expiry}
	}),
	"setpx": onRedis(func(c rueidis.Client, name, owner string, expiry time.Duration) handwritten.Lock {
		return &handwritten.SetPX{Redis: c, Key: name, Owner: owner, Expiry: expiry}
	}),
	"setpx-believed": onRedis(func(c rueidis.Client, name, owner string, expiry time.Duration) handwritten.Lock {
		return &handwritten.SetPX{Redis: c, Key: name, Owner: owner, Expiry: expiry}
	}).believed(),
	"setpx-del": onRedis(func(c rueidis.Client, name, owner string, expiry time.Duration) handwritten.Lock {
		return &handwritten.SetPXDel{SetPX: handwritten.SetPX{Redis: c, Key: name, Owner: owner, Expiry: expiry}}
	}),
	"setpx-get-del": onRedis(func(c rueidis.Client, name, owner string, expiry time.Duration) handwritten.Lock {
		return &handwritten.SetPXGetDel{SetPX: handwritten.SetPX{Redis: c, Key: name, Owner: owner, Expiry: expiry}}
	}),
	"json": onRedis(func(c rueidis.Client, name, owner string, expiry time.Duration) handwritten.Lock {
		return &handwritten.JSONCount{Redis: c, Key: name, Owner: owner, Expiry: expiry}
	}),
	"getset": getSet(),
	"row":    row().believed(),

	"tutorial": {open: tutorial, forEver: true, waits: true},
}

// getSet has a clock of its own in each process, which is up to four seconds ahead.
func getSet() article {
	ahead := time.Duration(rand.Int64N(int64(4 * time.Second)))
	return onRedis(func(c rueidis.Client, name, _ string, expiry time.Duration) handwritten.Lock {
		return &handwritten.GetSet{Redis: c, Key: name, Expiry: expiry, Now: func() time.Time { return time.Now().Add(ahead) }}
	})
}

// tutorial has a parent node for each name.
func tutorial(_ context.Context, url string) (func(string, string, time.Duration) handwritten.Lock, func() error, error) {
	conn, _, err := zk.Connect([]string{strings.TrimPrefix(url, "zookeeper://")}, 4*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return nil, nil, err
	}
	return func(name, _ string, _ time.Duration) handwritten.Lock {
		_, _ = conn.Create("/"+name, nil, 0, zk.WorldACL(zk.PermAll)) // it may be there
		return handwritten.NewTutorial(conn, "/"+name)
	}, func() error { conn.Close(); return nil }, nil
}

// row is the unique row of a table. The test sweeps.
func row() article {
	return article{open: func(_ context.Context, url string) (func(string, string, time.Duration) handwritten.Lock, func() error, error) {
		db, err := sql.Open("pgx", url+"?sslmode=disable")
		if err != nil {
			return nil, nil, err
		}
		return func(name, owner string, _ time.Duration) handwritten.Lock {
			return &handwritten.UniqueRow{DB: db, Name: name, Owner: owner}
		}, db.Close, nil
	}}
}

// openArticle opens the lock of an article for torture: its URL is that of the server, after
// the name of the article. Every other URL is that of an engine.
func openArticle(ctx context.Context, url string) (engine.Engine, error) {
	name, server, ok := strings.Cut(url, "+")
	if !ok {
		return engines.Open(ctx, url)
	}
	a, known := articles[name]
	if !known {
		return nil, fmt.Errorf("no article is called %q", name)
	}
	made, end, err := a.open(ctx, server)
	if err != nil {
		return nil, err
	}
	return &copied{article: a, made: made, end: end, waiting: map[engine.ID]*inWait{}, claims: map[engine.ID]*copiedClaim{}}, nil
}

// copied is the lock of an article as an engine: without order, and with nothing to look at.
type copied struct {
	article
	made func(name, owner string, expiry time.Duration) handwritten.Lock
	end  func() error

	mu      sync.Mutex
	waiting map[engine.ID]*inWait
	claims  map[engine.ID]*copiedClaim
	tickets uint64
}

type copiedClaim struct {
	handwritten.Lock
	ticket uint64
	ends   time.Time
}

var errNoRenewal = errors.New("the lock has expired, and the article has no renewal")

func (e *copied) Guarantees() engine.Guarantees {
	return engine.Guarantees{Modes: engine.Exclusive, Failover: engine.FailoverNone, Scope: engine.ScopeCluster, CrashRelease: engine.CrashTTL}
}

func (e *copied) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	c := engine.Claim{Name: r.Name, ID: r.ID, Permits: r.Permits, Limit: r.Limit}
	if held, err := e.renew(engine.Renewal{Name: r.Name, ID: r.ID, Want: r.WaitTTL}); err == nil && held.State == engine.Held {
		return held, nil
	}
	expiry, began := cmp.Or(r.TTL, r.WaitTTL), time.Now()
	l, err := e.try(ctx, r, expiry)
	switch {
	case errors.Is(err, handwritten.ErrTaken) && r.NoWait:
		c.State = engine.Gone
		return c, nil
	case errors.Is(err, handwritten.ErrTaken):
		c.State, c.PollAfter = engine.Waiting, expiry/20
		return c, nil
	case err != nil:
		return engine.Claim{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tickets++
	e.claims[r.ID] = &copiedClaim{l, e.tickets, began.Add(expiry)}
	c.State, c.Ticket, c.TTL = engine.Held, e.tickets, expiry
	return c, nil
}

// try asks for a lock, without waiting for it.
func (e *copied) try(ctx context.Context, r engine.Request, expiry time.Duration) (handwritten.Lock, error) {
	if !e.waits {
		l := e.made(r.Name, r.ID.Secret(), expiry)
		return l, l.Lock(handwritten.Once(ctx))
	}
	e.mu.Lock()
	w := e.waiting[r.ID]
	if w == nil {
		w = wait(e.made(r.Name, r.ID.Secret(), expiry))
		e.waiting[r.ID] = w
	}
	e.mu.Unlock()
	late := time.NewTimer(expiry / 20)
	defer late.Stop()
	select {
	case err := <-w.done:
		e.gaveUp(r.ID)
		return w.Lock, err
	case <-late.C:
	}
	if r.NoWait {
		e.gaveUp(r.ID)
	}
	return nil, handwritten.ErrTaken
}

// inWait is a lock whose Lock goes on.
type inWait struct {
	handwritten.Lock
	done chan error
	end  context.CancelFunc
}

func wait(l handwritten.Lock) *inWait {
	ctx, end := context.WithCancel(context.Background())
	w := &inWait{l, make(chan error, 1), end}
	go func() {
		err := l.Lock(ctx)
		if err == nil && ctx.Err() != nil { // nobody wants it any more
			_ = l.Unlock(context.Background())
		}
		w.done <- err
	}()
	return w
}

func (e *copied) gaveUp(id engine.ID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.waiting[id]; w != nil {
		w.end()
		delete(e.waiting, id)
	}
}

// renew says what the user of an article knows: when the lock will expire.
func (e *copied) renew(r engine.Renewal) (engine.Claim, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := engine.Claim{Name: r.Name, ID: r.ID, Permits: engine.Max, Limit: engine.Max, State: engine.Held}
	held := e.claims[r.ID]
	if held == nil {
		c.State = engine.Gone
		return c, nil
	}
	c.Ticket, c.TTL = held.ticket, time.Until(held.ends)
	if e.forEver {
		c.TTL = r.Want
	}
	if c.TTL <= 0 {
		return engine.Claim{}, errNoRenewal
	}
	return c, nil
}

func (e *copied) Renew(_ context.Context, rs []engine.Renewal) (out []engine.Claim, err error) {
	for _, r := range rs {
		c, failed := e.renew(r)
		if failed != nil {
			err = cmp.Or(err, failed)
			continue
		}
		out = append(out, c)
	}
	return out, err
}

func (e *copied) Leave(ctx context.Context, cs []engine.Claim) (out []engine.Claim, err error) {
	for _, c := range cs {
		e.mu.Lock()
		held := e.claims[c.ID]
		e.mu.Unlock()
		e.gaveUp(c.ID)
		c = engine.Claim{Name: c.Name, ID: c.ID, State: engine.Gone}
		if held != nil {
			if failed := held.Unlock(ctx); failed != nil {
				err = cmp.Or(err, failed)
				continue
			}
			if e.forEver || time.Now().Before(held.ends) {
				c.State = engine.Held
			}
			e.mu.Lock()
			delete(e.claims, c.ID)
			e.mu.Unlock()
		}
		out = append(out, c)
	}
	return out, err
}

func (e *copied) Watch(ctx context.Context, changed func(engine.Claim)) error {
	changed(engine.Claim{})
	<-ctx.Done()
	return ctx.Err()
}

func (e *copied) Queue(_ context.Context, name string) (engine.Queue, error) {
	return engine.Queue{Name: name}, nil
}

func (e *copied) Queues(context.Context, string) iter.Seq2[engine.Queue, error] {
	return func(func(engine.Queue, error) bool) {}
}

func (e *copied) Revoke(context.Context, string, uint64, bool) error { return errors.ErrUnsupported }

func (e *copied) Close() error { return e.end() }
