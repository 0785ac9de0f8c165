package filelock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// Options are the choices of an Engine. Nil means the defaults.
type Options struct {
	// Force allows a directory on a file system that is not known to be local.
	// Locks on a network file system may exclude nobody: set it only where
	// every process that uses the directory runs on one kernel.
	Force bool

	// For tests. With a hook the engine sweeps only when it is told to.
	hook     func(step string) // called at every step
	idle     time.Duration     // how long a name is idle before its record goes
	patience time.Duration     // how long a lock is stuck before its holder counts as stopped
}

// Engine is one client of a directory. Several may use it at the same time, in
// one process or many.
type Engine struct {
	path   string
	client string
	boot   [16]byte
	clock  func() time.Duration
	hook   func(string)

	idle, patience time.Duration

	root, lines, clients, fresh dir
	floor                       *record

	made  atomic.Uint64 // names of temporary directories
	wake  chan struct{} // capacity 1: mail, or a new Watch, is there
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup // goroutines
	gate  sync.RWMutex   // read: a method runs. Written once, by Close
	shut  bool           // under gate

	most    share
	working chan struct{} // has one from each call that may open files

	living struct {
		sync.Mutex
		*life
		looked time.Duration // when it was certain that others find its file
		lost   error         // they do not, and there is no new one
	}

	mu       sync.Mutex
	records  map[string]*record   // those in use, and those open
	idles    int                  // how many of them are open and not in use
	uses     uint64               // how often a record came to be idle
	mine     map[engine.ID]string // claims to leave at Close, and their names
	mail     []engine.Claim
	all      bool // look at everything
	monitors map[string]*monitor
	looking  map[string]bool

	peers struct {
		sync.Mutex
		m   map[string]*peer
		buf []byte
	}
}

var _ engine.Engine = (*Engine)(nil)

// New opens the directory dir, made with mode 0700 if it is not there, as one
// more client. The directory must belong to this user, must not be a symbolic
// link or writable by others, and must be on a local file system. Errors say
// which of these fails; they are final.
func New(dir string, o *Options) (*Engine, error) {
	if o == nil {
		o = &Options{}
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("filelock: %w", err)
	}
	e := &Engine{
		path: path, hook: o.hook,
		idle:     cmp.Or(o.idle, idleTime),
		patience: cmp.Or(o.patience, patience),

		wake:    make(chan struct{}, 1),
		records: map[string]*record{}, mine: map[engine.ID]string{},
		monitors: map[string]*monitor{}, looking: map[string]bool{},
	}
	e.peers.m = map[string]*peer{}
	limit := descriptorLimit()
	e.most = shareOf(limit)
	e.working = make(chan struct{}, e.most.records)
	if err := e.open(o.Force); err != nil {
		switch {
		case isReadOnly(err):
			err = fmt.Errorf("%s must belong to this user and be writable, or use another directory: %w", path, err)
		case isTooMany(err):
			err = tooMany(err)
		}
		return nil, fmt.Errorf("filelock: %w", err)
	}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.listen(e.living.life)
	if e.hook == nil {
		e.tasks.Go(e.sweepLoop)
	}
	return e, nil
}

// open makes what a client needs, or leaves nothing open behind.
func (e *Engine) open(force bool) (err error) {
	if e.boot, e.clock, err = bootClock(); err != nil {
		return err
	}
	if e.root, err = makeRoot(e.path); err != nil {
		return err
	}
	opened := []dir{e.root}
	defer func() {
		if err != nil {
			for _, d := range opened {
				d.close()
			}
		}
	}()
	if !force {
		if err := e.root.local(e.path); err != nil {
			return err
		}
	}
	for _, sub := range []struct {
		name string
		d    *dir
	}{{"lines", &e.lines}, {"clients", &e.clients}, {"new", &e.fresh}} {
		if *sub.d, err = e.root.makeSub(sub.name); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(e.path, sub.name), err)
		}
		opened = append(opened, *sub.d)
	}
	e.floor = newRecord(e.root, "", "floor")
	if e.living.life, err = e.beginLife(); err != nil {
		return err
	}
	if err := e.reserve(); err != nil {
		e.endLife()
		return err
	}
	return nil
}

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	return engine.Guarantees{
		Order:        engine.FIFO,
		Modes:        engine.Exclusive | engine.Shared | engine.Units,
		Fencing:      engine.FencingAlways,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeMachine,
		CrashRelease: engine.CrashAtOnce,
		Detach:       knowsBoot,
		SeesWaiters:  true,
	}
}

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	if err := e.Guarantees().Check(&r); err != nil {
		return engine.Claim{}, err
	}
	// Before it is in line: Close must not overlook it.
	e.remember(&r)
	cs, err := e.update(ctx, r.Name, change{
		founds: true, owner: &r,
		run: func(now time.Duration, l *line.Line) ([]engine.Claim, []line.Note, error) {
			c, notes, err := l.Join(now, uint64(time.Now().UnixMicro()), e.client, r)
			return []engine.Claim{c}, notes, err
		},
	})
	if err != nil {
		if errors.Is(err, engine.ErrRefused) {
			e.forgetClaims([]engine.Claim{{ID: r.ID}})
		}
		return engine.Claim{}, err
	}
	if cs[0].State == engine.Gone {
		e.forgetClaims(cs)
	}
	return cs[0], nil
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	for i := range rs {
		if err := engine.CheckTTL(rs[i].Want); err != nil {
			return nil, err
		}
	}
	return batch(rs, func(r *engine.Renewal) string { return r.Name }, func(name string, rs []engine.Renewal) ([]engine.Claim, error) {
		cs, err := e.update(ctx, name, change{
			renew: true,
			run: func(now time.Duration, l *line.Line) (cs []engine.Claim, notes []line.Note, _ error) {
				cs = make([]engine.Claim, 0, len(rs))
				for _, r := range rs {
					c, more := l.Renew(now, r)
					cs, notes = append(cs, c), append(notes, more...)
				}
				return cs, notes, nil
			},
		})
		e.forgetClaims(slices.DeleteFunc(slices.Clone(cs), func(c engine.Claim) bool { return c.State != engine.Gone || c.Evicted }))
		return cs, err
	})
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	return batch(cs, func(c *engine.Claim) string { return c.Name }, func(name string, cs []engine.Claim) ([]engine.Claim, error) {
		cs, err := e.update(ctx, name, change{
			leaves: true,
			run: func(now time.Duration, l *line.Line) (out []engine.Claim, notes []line.Note, _ error) {
				out = make([]engine.Claim, 0, len(cs))
				for i := range cs {
					c, more := l.Leave(now, name, cs[i].ID)
					out, notes = append(out, c), append(notes, more...)
				}
				return out, notes, nil
			},
		})
		e.forgetClaims(cs)
		return cs, err
	})
}

// Evict implements [engine.Engine].
func (e *Engine) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	_, err := e.update(ctx, name, change{
		run: func(t time.Duration, l *line.Line) ([]engine.Claim, []line.Note, error) {
			notes, err := l.Evict(t, name, ticket, now)
			return nil, notes, err
		},
	})
	return err
}

// batch runs op once per name, in order of first appearance, so that a
// thousand claims of one name cost one transaction. It keeps what was learned
// before an error.
func batch[In any](in []In, name func(*In) string, op func(string, []In) ([]engine.Claim, error)) ([]engine.Claim, error) {
	switch {
	case len(in) > engine.MaxBatch:
		return nil, engine.Refuse("%d items are more than %d in one call", len(in), engine.MaxBatch)
	case len(in) == 1:
		if err := engine.CheckName(name(&in[0])); err != nil {
			return nil, err
		}
		return op(name(&in[0]), in)
	}
	groups, err := byName(in, name)
	if err != nil {
		return nil, err
	}
	out := make([]engine.Claim, 0, len(in))
	for _, group := range groups {
		cs, err := op(name(&group[0]), group)
		out = append(out, cs...)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// byName puts what is of one name together. A few of different names, as LockAll
// gives up, stay where they are.
func byName[In any](in []In, name func(*In) string) ([][]In, error) {
	const few = 16
	groups := make([][]In, 0, len(in))
	place := map[string]int(nil)
	if len(in) > few {
		place = make(map[string]int, len(in))
	}
	for i := range in {
		n := name(&in[i])
		at, found := place[n]
		for j := 0; place == nil && !found && j < len(groups); j++ {
			at, found = j, name(&groups[j][0]) == n
		}
		if found {
			groups[at] = append(groups[at], in[i]) // its capacity is its length
			continue
		}
		if err := engine.CheckName(n); err != nil {
			return nil, err
		}
		if place != nil {
			place[n] = len(groups)
		}
		groups = append(groups, in[i:i+1:i+1])
	}
	return groups, nil
}

func (e *Engine) remember(r *engine.Request) {
	if r.Detached {
		return
	}
	e.mu.Lock()
	e.mine[r.ID] = r.Name
	e.mu.Unlock()
}

func (e *Engine) forgetClaims(cs []engine.Claim) {
	if len(cs) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range cs {
		delete(e.mine, cs[i].ID)
	}
}

// step tells tests where a transaction is.
func (e *Engine) step(s string) {
	if e.hook != nil {
		e.hook(s)
	}
}

// closeTime bounds how long Close gives claims up one by one. What is left is
// freed by the end of the client itself.
const closeTime = 2 * time.Second

// Close implements [engine.Engine]. Claims that are not detached are free when
// it returns, in any case: those it had no time to leave are a dead client's.
func (e *Engine) Close() error {
	e.gate.RLock()
	done := e.shut
	e.gate.RUnlock()
	if done {
		return nil
	}
	e.mu.Lock()
	var cs []engine.Claim
	for id, name := range e.mine {
		cs = append(cs, engine.Claim{Name: name, ID: id})
	}
	e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	for len(cs) > 0 && ctx.Err() == nil {
		n := min(len(cs), engine.MaxBatch)
		if _, err := e.Leave(ctx, cs[:n]); err != nil {
			break
		}
		cs = cs[n:]
	}
	if e.enter() {
		_ = e.discard(ctx, e.dropIdle(0)) // what is left is swept by others
		e.leave()
	}
	cancel()

	e.gate.Lock()
	if e.shut {
		e.gate.Unlock()
		return nil
	}
	e.shut = true
	e.gate.Unlock()
	e.mu.Lock()
	e.stop()
	for _, m := range e.monitors {
		if m.conn != nil {
			m.conn.Close()
		}
	}
	e.mu.Unlock()
	e.endLife()
	e.tasks.Wait()

	e.mu.Lock()
	for _, r := range e.records {
		r.shut()
	}
	e.mu.Unlock()
	e.floor.shut()
	e.peers.Lock()
	for client := range e.peers.m {
		e.dropPeer(client)
	}
	e.peers.Unlock()
	for _, d := range []dir{e.lines, e.clients, e.fresh, e.root} {
		d.close()
	}
	return nil
}
