package leasehold

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

type traceKey struct{}

// traced is a context as a request has one.
func traced(what string) context.Context {
	return context.WithValue(context.Background(), traceKey{}, what)
}

// Every event of a call has its context and says what it asked for; what is of no call
// has none.
func TestAnEventHasTheContextOfItsCall(t *testing.T) {
	bubble(t, func(w *world) {
		h := &received{}
		c, f := w.client(&Options{Observer: h.observe})
		acquire := func(what string, c *Client, permits int32) (*Lease, error) {
			return c.Acquire(traced(what), "x", permits, 5)
		}
		first, err := acquire("first", c, 3)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := acquire("brief", c.With(LockOptions{Wait: time.Second}), 4); !errors.Is(err, ErrHeld) {
			t.Fatal(err)
		}
		second := async(func() (*Lease, error) { return acquire("second", c, 4) })
		synctest.Wait()
		mustUnlock(t, first)
		o := <-second
		if o.err != nil {
			t.Fatal(o.err)
		}
		revokeNow(o.l)
		synctest.Wait()
		_ = o.l.Unlock()
		l := mustLock(t, c, "y")
		time.Sleep(time.Second)
		f.set(func(f *faulty) { f.renew = cutRenew })
		time.Sleep(15 * time.Second)
		f.set(func(f *faulty) { f.renew = nil })
		time.Sleep(15 * time.Second)
		mustUnlock(t, l)

		if e := h.of(EventRevoke); len(e) != 1 || e[0].Name != "x" || e[0].Token.Ticket() != o.l.Token().Ticket() {
			t.Errorf("got the events %+v, want one that the claim with ticket %d was revoked", e, o.l.Token().Ticket())
		}

		type said struct {
			kind    EventKind
			what    any
			permits int32
		}
		got := map[said]bool{}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, e := range h.events {
			switch {
			case e.Name == "y":
			case e.Context == nil:
				got[said{e.Kind, nil, e.Permits}] = true
			case e.Limit == 5:
				got[said{e.Kind, e.Context.Value(traceKey{}), e.Permits}] = true
			default:
				t.Errorf("%v has the limit %d, want 5", e.Kind, e.Limit)
			}
		}
		for _, want := range []said{
			{EventHeld, "first", 3}, {EventRenewed, "first", 3}, {EventReleased, "first", 3},
			{EventWaiting, "brief", 4}, {EventGaveUp, "brief", 4},
			{EventWaiting, "second", 4}, {EventHeld, "second", 4}, {EventLost, "second", 4}, {EventAfterLoss, "second", 4},
			{EventRevoke, nil, 0}, {EventEngineDown, nil, 0}, {EventEngineUp, nil, 0},
		} {
			if !got[want] {
				t.Errorf("no event %+v", want)
			}
			delete(got, want)
		}
		for more := range got {
			t.Errorf("an event %+v that nobody expects", more)
		}
	})
}

// Who need not wait is not said to.
func TestACallThatNeedNotWaitIsNotSaidTo(t *testing.T) {
	bubble(t, func(w *world) {
		h := &received{}
		c, _ := w.client(&Options{Observer: h.observe, IdleTimeout: time.Minute})
		mustUnlock(t, mustLock(t, c, "x"))
		mustUnlock(t, mustLock(t, c, "x")) // kept
		l, err := c.RLock(context.Background(), "y")
		if err != nil {
			t.Fatal(err)
		}
		other, err := c.RLock(context.Background(), "y")
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, l)
		mustUnlock(t, other)
		if e := h.of(EventWaiting); len(e) != 0 {
			t.Errorf("got the events %+v, want none", e)
		}
	})
}

// contexts is a handler that keeps the contexts it is given.
type contexts struct {
	slog.Handler
	all *[]context.Context
}

func (c contexts) Handle(ctx context.Context, r slog.Record) error {
	*c.all = append(*c.all, ctx)
	return c.Handler.Handle(ctx, r)
}

// What logs with a trace finds it.
func TestLogToPassesTheContextOn(t *testing.T) {
	var all []context.Context
	log := LogTo(slog.New(contexts{slog.NewTextHandler(&bytes.Buffer{}, &slog.HandlerOptions{Level: slog.LevelDebug}), &all}))
	log(Event{Kind: EventHeld, Name: "x", Context: traced("a")})
	log(Event{Kind: EventEngineDown, Err: errCut})
	if len(all) != 2 || all[0].Value(traceKey{}) != "a" || all[1] == nil || all[1].Value(traceKey{}) != nil {
		t.Errorf("got the contexts %v, want that of the first event and an empty one", all)
	}
}

// The owner of a claim is text: only what this client's own machine holds is its own.
func TestOnlyWhatThisClientHoldsIsItsOwn(t *testing.T) {
	for what, own := range map[string]bool{"this client": true, "another client": false} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				asks, _ := w.client(nil)
				holder := asks
				if !own {
					holder, _ = w.client(nil)
				}
				l := mustLock(t, holder, "x")
				_, err := asks.TryLock(context.Background(), "x")
				var held *HeldError
				if !errors.As(err, &held) || held.Own != own {
					t.Errorf("got %v, want one that says that this client holds it: %v", err, own)
				}
				mustUnlock(t, l)
			})
		})
	}
	t.Run("one of two", func(t *testing.T) {
		bubble(t, func(w *world) {
			asks, _ := w.client(nil)
			other, _ := w.client(nil)
			var readers []*Lease
			for _, c := range []*Client{asks, other} {
				l, err := c.RLock(context.Background(), "x")
				if err != nil {
					t.Fatal(err)
				}
				readers = append(readers, l)
			}
			_, err := asks.TryLock(context.Background(), "x")
			var held *HeldError
			if !errors.As(err, &held) || !held.Own || len(held.By) != 2 {
				t.Errorf("got %+v, want one that says that two hold it, this process too", err)
			}
			for _, l := range readers {
				mustUnlock(t, l)
			}
		})
	})
}
