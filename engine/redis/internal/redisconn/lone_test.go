package redisconn

import (
	"sync"
	"testing"

	"leasehold/engine/internal/testutil"
)

// A caller that is alone again gets a connection that is not shared: on one where calls have
// overlapped the library is slower for good.
func TestALoneCallerGetsANewConnectionAfterCallsOverlapped(t *testing.T) {
	t.Parallel()
	c, _ := dialed(t, nil)
	id := func() int64 {
		n, err := c.Ask(t.Context(), "CLIENT", "ID").AsInt64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := id()
	for range 2 * settled {
		if now := id(); now != first {
			t.Fatalf("connection %d follows %d though no calls overlapped", now, first)
		}
	}

	blocks := func() { _ = c.Ask(t.Context(), "BLPOP", "none", "0.1").Error() }
	for name, other := range map[string]func(){
		"a call": blocks,
		"calls that go out together": func() {
			script := NewScript("return 1")
			c.CallMany(t.Context(), script, []Call{{}, {}})
		},
		"an examination": func() { _ = c.Check(t.Context(), true) },
	} {
		first := id()
		// The other one's answer comes behind that of the first, so both are under way.
		var both sync.WaitGroup
		both.Go(blocks)
		testutil.Until(t, "the call is not under way", func() bool {
			c.lone.mu.Lock()
			defer c.lone.mu.Unlock()
			return c.lone.under > 0
		})
		both.Go(other)
		both.Wait()
		ids := map[int64]bool{}
		for range 10 * settled {
			ids[id()] = true
		}
		if len(ids) != 2 || !ids[first] {
			t.Errorf("%s: connections %v after %d, want that one and then one new", name, ids, first)
		}
	}
}
