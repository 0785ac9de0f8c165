package redisconn

import (
	"sync"
	"testing"
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

	// The second one's answer comes behind that of the first, so both are under way.
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { _ = c.Ask(t.Context(), "BLPOP", "none", "0.1").Error() })
	}
	both.Wait()
	ids := map[int64]bool{}
	for range 10 * settled {
		ids[id()] = true
	}
	if len(ids) != 2 || !ids[first] {
		t.Errorf("connections %v after %d, want that one and then one new", ids, first)
	}
}
