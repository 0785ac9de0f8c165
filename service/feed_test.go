package service

import (
	"testing"

	"leasehold/engine"
)

// A read that ends when nobody watches any more is not what the next one begins with: it
// may come much later.
func TestAWatchBeginsWithNothingOld(t *testing.T) {
	s, base := plainly(t, store(t).Engine(), nil)
	held := send(t, "POST", base+"/v1/locks/a", `{"ttl": "1m"}`)
	held.want(t, 200, "held")
	everything := func() *watcher {
		return &watcher{changes: map[string]engine.Queue{}, woken: make(chan struct{}, 1), may: func(string) bool { return true }}
	}
	f := &feed{} // which reads when the test says so
	one, two := everything(), everything()
	stopOne, stopTwo := f.add(one), f.add(two)
	f.read(t.Context(), s)
	if changes, _ := two.take(); len(changes) != 1 {
		t.Fatalf("it is told of %d names, want 1", len(changes))
	}
	stopOne()
	stopTwo()
	f.read(t.Context(), s) // it had begun before
	later := everything()
	defer f.add(later)()
	if changes, _ := later.take(); len(changes) != 0 {
		t.Errorf("a watch begins with %v of an earlier time", changes)
	}
}
