package redissonlock

import (
	"slices"
	"testing"
	"time"

	"leasehold/engine"
)

func TestWaiters(t *testing.T) {
	w := newWaiters()
	wants := func(when string, again bool, want ...string) {
		t.Helper()
		if got := w.wanted(again); !slices.Equal(got, want) {
			t.Errorf("%s: listened to from now on: %q, want %q", when, got, want)
		}
	}
	a, b := exclusive("a"), exclusive("a")
	w.expect(a, "channel", time.Minute)
	wants("nobody waits yet", false)
	if _, waits := w.get(a.ID); waits || len(w.on("channel")) != 1 {
		t.Error("who may have to wait is not told, or renewed as if it waited")
	}
	w.waits(a.ID)
	wants("one waits", false, "channel")
	w.expect(b, "channel", time.Minute)
	w.waits(b.ID)
	wants("a second one", false)
	if n := len(w.on("channel")); n != 2 {
		t.Errorf("%d are told", n)
	}
	w.forget(a.ID)
	w.forget(b.ID)
	w.forget(b.ID)

	t.Run("a busy name stays listened to", func(t *testing.T) {
		if names := w.prune(); len(names) > 0 {
			t.Errorf("left at once: %q", names)
		}
		w.expect(a, "channel", time.Minute)
		w.waits(a.ID)
		wants("waited for again", false)
		w.prune()
		w.forget(a.ID)
		if names := w.prune(); len(names) > 0 {
			t.Errorf("left at once: %q", names)
		}
	})
	t.Run("a name that nobody waits for is left", func(t *testing.T) {
		if names := w.prune(); !slices.Equal(names, []string{"channel"}) {
			t.Errorf("left: %q", names)
		}
		w.expect(a, "channel", time.Minute)
		w.waits(a.ID)
		wants("waited for once more", false, "channel")
	})
	t.Run("a new connection listens to nothing by itself", func(t *testing.T) {
		wants("again", true, "channel")
		w.forget(a.ID)
		wants("again, and nobody waits", true)
	})
	t.Run("what is used up is given back", func(t *testing.T) {
		for range 5000 {
			w.expect(exclusive("b"), "other", -time.Second)
		}
		if n := len(w.byID); n > 1024 {
			t.Errorf("%d claims that expired are remembered", n)
		}
		for id := range w.byID {
			w.forget(id)
		}
		if len(w.byID)+len(w.channels) > 0 {
			t.Errorf("%d claims, %d channels", len(w.byID), len(w.channels))
		}
	})
	t.Run("a deadline moves one way", func(t *testing.T) {
		w.expect(a, "channel", time.Minute)
		w.waits(a.ID)
		long, _ := w.get(a.ID)
		w.extend(a.ID, time.Second)
		w.expect(a, "channel", time.Second)
		if short, ok := w.get(a.ID); !ok || short.until != long.until {
			t.Errorf("it was moved by %v", short.until-long.until)
		}
		w.extend(engine.NewID(), time.Second)
	})
}
