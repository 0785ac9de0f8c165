package tuslock_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/leaseholdtest"
	"leasehold/with/tuslock"
)

func newLock(t *testing.T, l *tuslock.Locker, id string) handler.Lock {
	t.Helper()
	lock, err := l.NewLock(id)
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func newLocker(t *testing.T, locks *leasehold.Client) *tuslock.Locker {
	t.Helper()
	l, err := tuslock.New(locks, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestALossAsksTheRequestToStopOnce(t *testing.T) {
	locks := leaseholdtest.New(t)
	lock := newLock(t, newLocker(t, locks.Client), "id")
	asked := make(chan struct{}, 10)
	if err := lock.Lock(t.Context(), func() { asked <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	locks.Lose("tus:id")
	<-asked
	if err := lock.Unlock(); !errors.Is(err, leasehold.ErrLost) || len(asked) > 0 {
		t.Errorf("%v, and it was asked %d times more", err, len(asked))
	}
}

func TestMisuseIsRefused(t *testing.T) {
	locks := leaseholdtest.New(t)
	l := newLocker(t, locks.Client)
	lock := newLock(t, l, "id")
	if err := lock.Unlock(); !errors.Is(err, tuslock.ErrNotHeld) {
		t.Errorf("Unlock without Lock: %v", err)
	}
	if err := lock.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := lock.Lock(t.Context(), nil); !errors.Is(err, tuslock.ErrInUse) {
		t.Errorf("Lock twice: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newLock(t, l, "id").Lock(ended, nil); !errors.Is(err, handler.ErrLockTimeout) {
		t.Errorf("Lock with an ended context: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
	if err := lock.Unlock(); !errors.Is(err, tuslock.ErrNotHeld) {
		t.Errorf("Unlock twice: %v", err)
	}
	if _, err := l.NewLock(""); !errors.Is(err, handler.ErrNotFound) {
		t.Errorf("an empty ID: %v", err)
	}
	if err := locks.Client.Close(); err != nil {
		t.Fatal(err)
	}
	var seen handler.Error
	if err := lock.Lock(t.Context(), nil); !errors.Is(err, tuslock.ErrUnavailable) || !errors.As(err, &seen) || strings.Contains(seen.Error(), "leasehold") {
		t.Errorf("an engine that is away for good: %v; the client of tusd sees %v", err, seen)
	}
}

// Clients choose the IDs of their requests: a long one must not be an error of the server.
func TestIDsThatAreNoNamesAreLockedByTheirSum(t *testing.T) {
	locks := leaseholdtest.New(t)
	l := newLocker(t, locks.Client)
	for _, id := range []string{strings.Repeat("x", 4096), "a\x00b", "\xff"} {
		first := newLock(t, l, id)
		if err := first.Lock(t.Context(), nil); err != nil {
			t.Fatalf("%.10q: %v", id, err)
		}
		asked := make(chan struct{})
		go func() { // the same ID is the same lock
			defer close(asked)
			second := newLock(t, l, id)
			if err := second.Lock(t.Context(), nil); err != nil {
				t.Error(err)
			} else if err := second.Unlock(); err != nil {
				t.Error(err)
			}
		}()
		if err := first.Unlock(); err != nil {
			t.Error(err)
		}
		<-asked
	}
}

// blind is an engine that does not show who waits.
type blind struct{ engine.Engine }

func (b blind) Guarantees() engine.Guarantees {
	g := b.Engine.Guarantees()
	g.SeesWaiters = false
	return g
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	locks, err := leasehold.New(blind{memlock.NewStore(nil).Engine()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	if _, err := tuslock.New(locks, nil); !errors.Is(err, leasehold.ErrRequire) {
		t.Errorf("an engine without waiters: %v", err)
	}
	if _, err := tuslock.New(locks, &tuslock.Options{AllowUnseenWaiters: true}); err != nil {
		t.Error(err)
	}
	if _, err := tuslock.New(nil, nil); err == nil {
		t.Error("no client was accepted")
	}
	good := leaseholdtest.New(t).Client
	for _, o := range []tuslock.Options{{TTL: 1}, {TTL: -1}, {Prefix: "a\x00"}, {Prefix: strings.Repeat("p", 257)}} {
		if _, err := tuslock.New(good, &o); err == nil {
			t.Errorf("%v was accepted", o)
		}
	}
}

// stored returns an upload of three bytes under a lock, behind the guard.
func stored(t *testing.T, locks *leaseholdtest.Locks) (*tuslock.Locker, handler.Upload, handler.Lock, string) {
	t.Helper()
	l := newLocker(t, locks.Client)
	c := handler.NewStoreComposer()
	filestore.New(t.TempDir()).UseIn(c)
	l.UseIn(c)
	made, err := c.Core.NewUpload(t.Context(), handler.FileInfo{Size: 6})
	if err != nil {
		t.Fatal(err)
	}
	info, err := made.GetInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := newLock(t, l, info.ID)
	if err := lock.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	u, err := c.Core.GetUpload(t.Context(), info.ID)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := u.WriteChunk(t.Context(), 0, strings.NewReader("abc")); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	return l, u, lock, info.ID
}

func TestNothingIsStoredAfterALoss(t *testing.T) {
	locks := leaseholdtest.New(t)
	_, u, lock, id := stored(t, locks)
	// Lost in the middle of a body: what is read after that is not stored.
	body := io.MultiReader(strings.NewReader("d"), readerFunc(func(b []byte) (int, error) {
		locks.Lose("tus:" + id)
		return copy(b, "e"), io.EOF
	}))
	if _, err := u.WriteChunk(t.Context(), 3, body); !errors.Is(err, tuslock.ErrLost) || !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("WriteChunk: %v", err)
	}
	if _, err := u.WriteChunk(t.Context(), 4, strings.NewReader("f")); !errors.Is(err, tuslock.ErrLost) {
		t.Errorf("WriteChunk after that: %v", err)
	}
	if err := u.FinishUpload(t.Context()); !errors.Is(err, tuslock.ErrLost) {
		t.Errorf("FinishUpload: %v", err)
	}
	r, err := u.GetReader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.HasPrefix([]byte("abcd"), got) {
		t.Errorf("stored: %q, %v", got, err)
	}
	if err := lock.Unlock(); !errors.Is(err, leasehold.ErrLost) {
		t.Error(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// After a loss the lease is free for the next request of this process, but the first one is
// still at work.
func TestTheNextRequestOfTheProcessWaitsForTheOneThatLost(t *testing.T) {
	locks := leaseholdtest.New(t)
	l, _, lock, id := stored(t, locks)
	locks.Lose("tus:" + id)
	next, over := newLock(t, l, id), make(chan error, 1)
	go func() { over <- next.Lock(t.Context(), nil) }()
	for !locks.Held("tus:" + id) { // it has the lease, and waits for the first
		select {
		case err := <-over:
			t.Fatalf("two requests of one process work: %v", err)
		default:
		}
	}
	select {
	case err := <-over:
		t.Fatalf("two requests of one process work: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := lock.Unlock(); !errors.Is(err, leasehold.ErrLost) {
		t.Error(err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := next.Unlock(); err != nil {
		t.Error(err)
	}
}

// A store whose extensions are called under the lease of a request.
type extended struct {
	handler.Upload
	called bool
}

func (e *extended) NewUpload(context.Context, handler.FileInfo) (handler.Upload, error) {
	return e, nil
}
func (e *extended) GetUpload(context.Context, string) (handler.Upload, error) { return e, nil }
func (e *extended) GetInfo(context.Context) (handler.FileInfo, error) {
	return handler.FileInfo{ID: "a"}, nil
}
func (e *extended) AsTerminatableUpload(handler.Upload) handler.TerminatableUpload { return e }
func (e *extended) AsLengthDeclarableUpload(handler.Upload) handler.LengthDeclarableUpload {
	return e
}
func (e *extended) AsConcatableUpload(handler.Upload) handler.ConcatableUpload { return e }

func (e *extended) call(context.Context) error {
	e.called = true
	return nil
}
func (e *extended) Terminate(ctx context.Context) error              { return e.call(ctx) }
func (e *extended) DeclareLength(ctx context.Context, _ int64) error { return e.call(ctx) }
func (e *extended) FinishUpload(ctx context.Context) error           { return e.call(ctx) }
func (e *extended) ConcatUploads(ctx context.Context, parts []handler.Upload) error {
	for _, p := range parts {
		if p != handler.Upload(e) {
			return errors.New("the store got an upload of another type")
		}
	}
	return e.call(ctx)
}

func TestNothingOfAStoreIsCalledAfterALoss(t *testing.T) {
	for what, call := range map[string]func(ctx context.Context, c *handler.StoreComposer, u handler.Upload) error{
		"Terminate": func(ctx context.Context, c *handler.StoreComposer, u handler.Upload) error {
			return c.Terminater.AsTerminatableUpload(u).Terminate(ctx)
		},
		"DeclareLength": func(ctx context.Context, c *handler.StoreComposer, u handler.Upload) error {
			return c.LengthDeferrer.AsLengthDeclarableUpload(u).DeclareLength(ctx, 1)
		},
		"ConcatUploads": func(ctx context.Context, c *handler.StoreComposer, u handler.Upload) error {
			return c.Concater.AsConcatableUpload(u).ConcatUploads(ctx, []handler.Upload{u})
		},
		"FinishUpload": func(ctx context.Context, _ *handler.StoreComposer, u handler.Upload) error {
			return u.FinishUpload(ctx)
		},
	} {
		t.Run(what, func(t *testing.T) {
			locks := leaseholdtest.New(t)
			l, inner, c := newLocker(t, locks.Client), &extended{}, handler.NewStoreComposer()
			c.UseCore(inner)
			c.UseTerminater(inner)
			c.UseLengthDeferrer(inner)
			c.UseConcater(inner)
			l.UseIn(c)
			k := newLock(t, l, "a")
			if err := k.Lock(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			u, err := c.Core.GetUpload(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			if err := call(t.Context(), c, u); err != nil || !inner.called {
				t.Errorf("under the lease: %v, called: %v", err, inner.called)
			}
			inner.called = false
			locks.Lose("tus:a")
			if err := call(t.Context(), c, u); !errors.Is(err, tuslock.ErrLost) || inner.called {
				t.Errorf("after a loss: %v, called: %v; want ErrLost and no call", err, inner.called)
			}
			if err := k.Unlock(); !errors.Is(err, leasehold.ErrLost) {
				t.Error(err)
			}
		})
	}
}

// It has the lease, and waits for a request of this process that has lost the one before.
func TestWhoWaitsForTheOneThatLostGivesUp(t *testing.T) {
	for why, end := range map[string]func(locks *leaseholdtest.Locks, cancel func()){
		"its own lease is lost": func(locks *leaseholdtest.Locks, _ func()) { locks.Lose("tus:a") },
		"its context has ended": func(_ *leaseholdtest.Locks, cancel func()) { cancel() },
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				locks := leaseholdtest.New(t)
				l := newLocker(t, locks.Client)
				first, next, over := newLock(t, l, "a"), newLock(t, l, "a"), make(chan error, 1)
				if err := first.Lock(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				locks.Lose("tus:a")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() { over <- next.Lock(ctx, nil) }()
				synctest.Wait() // it has the lease
				end(locks, cancel)
				synctest.Wait()
				select {
				case err := <-over:
					if err == nil {
						t.Error("it locked beside the first")
					}
				default:
					t.Error("it waits on")
				}
				if locks.Held("tus:a") {
					t.Error("the name is held, and nobody will unlock it")
				}
				if err := first.Unlock(); !errors.Is(err, leasehold.ErrLost) {
					t.Error(err)
				}
				if t.Failed() {
					cancel()
					<-over
				}
			})
		})
	}
}
