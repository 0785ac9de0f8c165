package fence_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/fence"
	"leasehold/leaseholdtest"
)

func exclusive(name string, token leasehold.Token) fence.Pass {
	return fence.Pass{Name: name, Token: token, Mode: engine.Exclusive}
}

func nothing() error { return nil }

// TestTheRule: over any passes in any order, the mark is the highest exclusive token
// that was let in, and who is below it is refused, with both tokens.
func TestTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		marks := &fence.Memory{}
		highest := map[string]leasehold.Token{}
		for range rapid.IntRange(1, 30).Draw(t, "passes") {
			p := fence.Pass{
				Name:  rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"),
				Token: leasehold.Token(rapid.Uint64Range(1, 9).Draw(t, "token")),
				Mode:  rapid.SampledFrom([]engine.Modes{engine.Exclusive, engine.Shared, engine.Permits, 0}).Draw(t, "mode"),
			}
			wrote := false
			err := marks.Do(t.Context(), p, func() error { wrote = true; return nil })
			var stale *fence.StaleError
			switch {
			case p.Mode != engine.Exclusive && p.Mode != engine.Shared:
				if !errors.Is(err, fence.ErrPass) {
					t.Fatalf("%v of mode %v: %v", p, p.Mode, err)
				}
			case p.Token < highest[p.Name]:
				if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) || *stale != (fence.StaleError{Name: p.Name, Token: p.Token, Mark: highest[p.Name]}) {
					t.Fatalf("%v below %v: %v", p, highest[p.Name], err)
				}
			case err != nil:
				t.Fatalf("%v, mark %v: %v", p, highest[p.Name], err)
			case p.Mode == engine.Exclusive:
				highest[p.Name] = p.Token
			}
			if wrote != (err == nil) {
				t.Fatalf("%v: wrote %v, %v", p, wrote, err)
			}
		}
	})
}

func TestPassOfEachKindOfLease(t *testing.T) {
	locks := leaseholdtest.New(t)
	marks := &fence.Memory{}
	for _, test := range []struct {
		name  string
		lock  func(ctx context.Context, name string) (*leasehold.Lease, error)
		shown string
		err   error
	}{
		{"Lock", locks.Lock, "", nil},
		{"RLock", locks.RLock, ";shared", nil},
		{"one of two permits", func(ctx context.Context, name string) (*leasehold.Lease, error) {
			return locks.Acquire(ctx, name, 1, 2)
		}, "", fence.ErrPass},
		{"both permits exclude everybody", func(ctx context.Context, name string) (*leasehold.Lease, error) {
			return locks.Acquire(ctx, name, 2, 2)
		}, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := test.lock(t.Context(), test.name)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Unlock()
			p := fence.Of(l)
			if err := marks.Do(t.Context(), p, nothing); !errors.Is(err, test.err) {
				t.Fatal(err)
			}
			if test.err != nil {
				return
			}
			if got := p.String(); got != l.Token().String()+test.shown {
				t.Errorf("shown as %q", got)
			}
			if read, err := fence.Parse(test.name, p.String()); read != p || err != nil {
				t.Errorf("read as %+v, %v", read, err)
			}
		})
	}
}

// noFencing is an engine whose tokens mean nothing.
type noFencing struct{ engine.Engine }

func (e noFencing) Guarantees() engine.Guarantees {
	g := e.Engine.Guarantees()
	g.Fencing = engine.FencingNone
	return g
}

// TestNoPassOfALeaseWithoutFencing: no resource could tell the late from the next.
func TestNoPassOfALeaseWithoutFencing(t *testing.T) {
	locks, err := leasehold.New(noFencing{memlock.New()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	l, err := locks.Lock(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	err = (&fence.Memory{}).Do(t.Context(), fence.Of(l), func() error { t.Error("wrote"); return nil })
	if !errors.Is(err, fence.ErrPass) || !strings.Contains(err.Error(), "no fencing") {
		t.Errorf("Do: %v; want ErrPass, which says that the engine declares no fencing", err)
	}
}

// TestAStaleErrorSaysOnlyWhatIsKnown: a mark may be from another engine, and then no
// lease was lost.
func TestAStaleErrorSaysOnlyWhatIsKnown(t *testing.T) {
	marks := &fence.Memory{}
	if err := marks.Do(t.Context(), exclusive("n", 7), nothing); err != nil {
		t.Fatal(err)
	}
	err := marks.Do(t.Context(), exclusive("n", 3), nothing)
	if !errors.Is(err, fence.ErrStale) || strings.Contains(err.Error(), "was lost") || !strings.Contains(err.Error(), "another engine") {
		t.Errorf("Do: %v", err)
	}
}

// TestALeaseGoesOnAsWhatItWas: in another process, and as a handle of one that is there.
func TestALeaseGoesOnAsWhatItWas(t *testing.T) {
	locks := leaseholdtest.New(t)
	l, err := locks.With(leasehold.LockOptions{Detached: true}).RLock(t.Context(), "shared")
	if err != nil {
		t.Fatal(err)
	}
	handle, err := l.Detach()
	if err != nil {
		t.Fatal(err)
	}
	there, err := locks.Adopt(t.Context(), handle)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Unlock()
	if p := fence.Of(there); p.Mode != engine.Shared || p.Token < l.Token() {
		t.Errorf("adopted as %+v, token %v before", p, l.Token())
	}

	outer, err := locks.Lock(t.Context(), "exclusive")
	if err != nil {
		t.Fatal(err)
	}
	defer outer.Unlock()
	inner, err := locks.With(leasehold.LockOptions{Reentrant: true}).RLock(outer.Context(), "exclusive")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Unlock()
	if p := fence.Of(inner); p.Mode != engine.Exclusive {
		t.Errorf("re-entered as %+v", p)
	}
}

func TestTextThatIsNoPass(t *testing.T) {
	for _, text := range []string{"", "0", "-1", "+1", "01", "1 ", "1.0", "1e3", ";shared", "1;shared;shared", "1;Shared",
		"9223372036854775808", "99999999999999999999"} {
		if p, err := fence.Parse("n", text); !errors.Is(err, fence.ErrPass) {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
	if _, err := fence.Parse("", "1"); !errors.Is(err, engine.ErrName) {
		t.Errorf("no name: %v", err)
	}
	if p, err := fence.Parse("n", "9223372036854775807"); err != nil || p.Token != 1<<63-1 {
		t.Errorf("the last token: %v, %v", p, err)
	}
}

// TestALetInWriteComesBeforeANewerOne: the old holder was let in and is slow; the new
// one must not be let in before it has written, or the old write would come last.
func TestALetInWriteComesBeforeANewerOne(t *testing.T) {
	marks := &fence.Memory{}
	var wrote []leasehold.Token // in a wrong Memory a race besides
	var newer sync.WaitGroup
	write := func(token leasehold.Token, before func()) {
		err := marks.Do(t.Context(), exclusive("n", token), func() error {
			before()
			wrote = append(wrote, token)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	write(1, func() {
		newer.Go(func() { write(2, func() {}) })
		for range 10_000 {
			runtime.Gosched()
		}
	})
	newer.Wait()
	if !slices.Equal(wrote, []leasehold.Token{1, 2}) {
		t.Errorf("written in the order %v", wrote)
	}
}

// TestSharedPassesDoNotWaitForEachOther, nor let a writer in between.
func TestSharedPassesDoNotWaitForEachOther(t *testing.T) {
	marks := &fence.Memory{}
	shared := fence.Pass{Name: "n", Token: 5, Mode: engine.Shared}
	err := marks.Do(t.Context(), shared, func() error {
		return marks.Do(t.Context(), shared, nothing)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := marks.Do(t.Context(), exclusive("n", 4), nothing); err != nil {
		t.Errorf("a shared pass raised the mark: %v", err)
	}
}

func TestNothingIsWrittenForACallerThatHasGone(t *testing.T) {
	marks := &fence.Memory{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := marks.Do(ctx, exclusive("n", 7), func() error { t.Error("wrote"); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := marks.Do(t.Context(), exclusive("n", 6), nothing); err != nil {
		t.Errorf("the mark was raised for a write that was not made: %v", err)
	}
}

// TestWhoWaitsForAHungWriteIsLetGo: a holder that was stopped in the middle of its upload
// keeps the mark; whoever comes next must not wait longer than its context.
func TestWhoWaitsForAHungWriteIsLetGo(t *testing.T) {
	for what, first := range map[string]engine.Modes{"behind an exclusive write": engine.Exclusive, "behind a shared one": engine.Shared} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				marks := &fence.Memory{}
				err := marks.Do(t.Context(), fence.Pass{Name: "n", Token: 1, Mode: first}, func() error {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if err := marks.Do(ctx, exclusive("n", 3), nothing); !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := marks.Do(t.Context(), exclusive("n", 2), nothing); err != nil {
					t.Errorf("who gave up raised the mark: %v", err)
				}
			})
		})
	}
}

// TestAWriterIsNotKeptOutByReaders that overlap for ever; and when it gives up, they go on.
func TestAWriterIsNotKeptOutByReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marks := &fence.Memory{}
		reader := func(do func() error) error {
			return marks.Do(t.Context(), fence.Pass{Name: "n", Token: 9, Mode: engine.Shared}, do)
		}
		var others sync.WaitGroup
		var read atomic.Bool
		ctx, giveUp := context.WithCancel(t.Context())
		reader(func() error {
			others.Go(func() {
				if err := marks.Do(ctx, exclusive("n", 8), nothing); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			synctest.Wait()
			others.Go(func() {
				reader(func() error { read.Store(true); return nil })
			})
			synctest.Wait()
			if read.Load() {
				t.Error("a reader passed a writer that waits")
			}
			giveUp()
			others.Wait()
			return nil
		})
	})
}

// TestAPanicLetsTheNextIn: a server recovers from its handlers' panics.
func TestAPanicLetsTheNextIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marks := &fence.Memory{}
		func() {
			defer func() { recover() }()
			marks.Do(t.Context(), exclusive("n", 1), func() error { panic("in the handler") })
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := marks.Do(ctx, exclusive("n", 2), nothing); err != nil {
			t.Error(err)
		}
	})
}

// TestATokenThatNoStoreCanKeep: columns are signed.
func TestATokenThatNoStoreCanKeep(t *testing.T) {
	for _, token := range []leasehold.Token{0, 1 << 63, 1<<64 - 1} {
		if err := exclusive("n", token).Valid(); !errors.Is(err, fence.ErrPass) {
			t.Errorf("%v: %v", token, err)
		}
	}
	if err := exclusive("n", 1<<63-1).Valid(); err != nil {
		t.Error(err)
	}
}

func TestWhatWriteSaysIsReturned(t *testing.T) {
	full := errors.New("disk full")
	if err := new(fence.Memory).Do(t.Context(), exclusive("n", 1), func() error { return full }); err != full {
		t.Fatal(err)
	}
}
