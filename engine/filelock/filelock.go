package filelock

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/queuestore"

	"leasehold/engine/filelock/internal/disk"
	"leasehold/engine/filelock/internal/liveness"
	"leasehold/engine/filelock/internal/records"
)

// Options are the choices of an Engine. Nil means the defaults.
type Options struct {
	// Force allows a directory on a file system that is not known to be local. Locks on a
	// network file system may exclude nobody: set it only if every process that uses the
	// directory runs on one kernel.
	Force bool

	// For tests. With a hook the engine sweeps only when it is told to.
	hook     func(step string)         // called at every step
	wrap     func(disk.File) disk.File // puts another file in front of each
	boot     func([16]byte) [16]byte   // another boot than this one, in which all clients of others have ended
	masked   *[16]byte                 // what says which boot this is, in place of the kernel
	micros   func() uint64             // the wall clock
	idle     time.Duration             // how long a name is idle before its record goes
	patience time.Duration             // how long a lock is stuck before its holder counts as stopped
}

// Engine is one client of a directory. Several engines may use it at the same time, in one
// process or many.
type Engine struct {
	*queuestore.Engine
	store *store
}

var _ engine.Engine = (*Engine)(nil)

// store is the directory as one client sees it: queues, and who is alive.
type store struct {
	client        string
	path          string // of root, for people
	root, clients disk.Dir
	clock         func() time.Duration // of deadlines
	knowsBoot     bool                 // the kernel's identity is not masked
	step          func(string)
	records       *records.Records
	lives         *liveness.Liveness

	stop  context.CancelFunc
	tasks sync.WaitGroup // goroutines
}

var _ queuestore.Liveness = (*store)(nil)

// New opens the directory dir as one more client, and makes it with mode 0700 if it is
// missing. The directory must belong to this user and be on a local file system. It must
// not be a symbolic link or writable by others. The process must be able to open some
// thirty files. The error names the condition that fails, and is final. On a full disk
// queues can be inspected, and Join returns an error until there is room.
func New(dir string, o *Options) (*Engine, error) {
	if o == nil {
		o = &Options{}
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("filelock: %w", err)
	}
	s := &store{}
	if err := s.open(path, o); err != nil {
		switch {
		case disk.IsReadOnly(err):
			err = fmt.Errorf("cannot write in %s: make it writable for this user, or use another directory: %w", path, err)
		case disk.IsTooMany(err):
			err = disk.TooMany(err)
		}
		return nil, fmt.Errorf("filelock: %w", err)
	}
	poll := pollEvery
	if liveness.Wakes {
		poll = 0
	}
	e := &Engine{queuestore.New(s.client, s, &queuestore.Options{Poll: poll}), s}
	var ctx context.Context
	ctx, s.stop = context.WithCancel(context.Background())
	s.lives.Listen(e.Post, e.PostAll, func(name string) { _ = e.PollAfter(ctx, name) }) // its error is one of the next Renew too
	if o.hook == nil {
		s.tasks.Go(func() { s.records.SweepLoop(ctx, s.lives.Sweep) })
	}
	return e, nil
}

// pollEvery is how often the first waiter polls if clients cannot wake each other.
const pollEvery = 10 * time.Millisecond

// open makes all that a client needs. After an error it leaves nothing open.
func (s *store) open(path string, o *Options) (err error) {
	boot, clock, err := bootClock()
	if err != nil {
		return err
	}
	if o.masked != nil {
		boot = *o.masked
	}
	s.knowsBoot = boot != [16]byte{}
	var undo []func()
	defer func() {
		if err != nil {
			if disk.IsFull(err) && len(undo) > 0 { // the root is open
				err, _ = noRoom(s.root, path, "one more client", err)
			}
			for _, f := range undo {
				defer f()
			}
		}
	}()
	if s.root, err = disk.MakeRoot(path); err != nil {
		return err
	}
	undo = append(undo, s.root.Close)
	s.root.Wrap = o.wrap
	if !o.Force {
		if err := s.root.Local(path); err != nil {
			return err
		}
	}
	s.path, s.client, s.clock, s.step = path, queuestore.NewClient(), clock, func(string) {}
	if o.hook != nil {
		s.step = o.hook
	}
	most := shareOf(disk.Limit())
	if s.records, err = records.Open(s.root, path, &records.Options{
		Owner: s.client,
		Most:  most.records,
		Boot: func() [16]byte {
			if o.boot != nil {
				return o.boot(boot)
			}
			return boot
		},
		Clock:    func() time.Duration { return s.clock() },
		Micros:   o.micros,
		Dead:     s.Dead,
		Ended:    func(client string) bool { return o.boot != nil || s.Dead(client) },
		Shed:     func() { s.lives.Shed() },
		Explain:  s.explain,
		Idle:     o.idle,
		Patience: o.patience,
		Step:     s.step,
	}); err != nil {
		return err
	}
	undo = append(undo, func() { s.records.Close(context.Background()) })
	if s.clients, err = s.root.MakeSub("clients"); err != nil {
		return pathError(path, "clients", err)
	}
	undo = append(undo, s.clients.Close)
	if s.lives, err = liveness.New(filepath.Join(path, "clients"), s.clients, s.client, clock, most.lives); err != nil {
		return err
	}
	undo = append(undo, s.lives.Close)
	return reserve(s.root)
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	return e.Engine.Renew(records.Renewing(ctx), rs)
}

// Guarantees implements [queuestore.Store].
func (s *store) Guarantees() engine.Guarantees {
	fencing := engine.FencingMemory
	if s.knowsBoot && disk.Syncs {
		fencing = engine.FencingAlways
	}
	return engine.Guarantees{
		Fencing:      fencing,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeMachine,
		CrashRelease: engine.CrashAtOnce,
		Detach:       knowsBoot,
		MinTTL:       minTTL,
	}
}

// Change implements [queuestore.Store].
func (s *store) Change(ctx context.Context, name string, change func(*queuestore.Record) error) error {
	if err := s.lives.IsAlive(); err != nil {
		joins := s.records.Joins(name, change)
		if joins || !errors.Is(err, liveness.ErrUnborn) {
			return s.explain(name, err, joins)
		}
		// An unborn client has no claims that others could take for a dead one's:
		// it may give back what was detached, say.
	}
	now, err := s.records.Change(ctx, name, change)
	if err == nil {
		s.lives.StayAlive(now)
		s.step("sending")
	}
	return err
}

// Read implements [queuestore.Store].
func (s *store) Read(_ context.Context, name string) (queuestore.Record, error) {
	return s.records.Read(name)
}

// Records implements [queuestore.Store].
func (s *store) Records(ctx context.Context, prefix, after string) ([]queuestore.Record, string, error) {
	return s.records.List(ctx, prefix, after)
}

// Notify implements [queuestore.Store].
func (s *store) Notify(client string, notification engine.Claim) {
	s.lives.Notify(client, &notification)
}

// Dead implements [queuestore.Liveness].
func (s *store) Dead(client string) bool { return s.lives.Dead(client) }

// Await implements [queuestore.Liveness].
func (s *store) Await(client, name string, until time.Duration) { s.lives.Await(client, name, until) }

// closeTime bounds how long Close removes the names that this client used last.
const closeTime = time.Second

// Close implements [queuestore.Store]. In any case claims that are not detached are free
// when it returns: those that it had no time to leave belong to a dead client.
func (s *store) Close() error {
	s.stop()
	s.tasks.Wait()
	s.lives.Close()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	s.records.Close(ctx)
	s.lives.Shed() // records.Close asked which clients live, and so opened their files again
	s.clients.Close()
	s.root.Close()
	return nil
}
