package redlock

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// atOnce asks three times at once, which the core does not. Held by one answer, it is
// held.
func atOnce(t *testing.T, e *Engine, r engine.Request) (c engine.Claim, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			got, failed := e.Join(t.Context(), r)
			mu.Lock()
			defer mu.Unlock()
			if err = errors.Join(err, failed); failed == nil && got.State > c.State {
				c = got // states only rise: gone, though it was held, is what must not be
			}
		})
		time.Sleep(rand.N(200 * time.Microsecond))
	}
	all.Wait()
	return c, err
}

// TestWhoHoldsIsFoundHolding: programs with redsync and leaseholds fight for one
// name; nobody's failed try takes from a holder what it was granted.
func TestWhoHoldsIsFoundHolding(t *testing.T) {
	all := masters(t, 5, nil)
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			var conns []*servers.Conn
			for _, r := range all {
				c, err := servers.DialRedis(r.Socket, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				conns = append(conns, c)
			}
			for {
				select {
				case <-stop:
					return
				case <-time.After(rand.N(4 * time.Millisecond)):
				}
				for _, c := range conns {
					c.Do("SET", "a", "theirs", "NX", "PX", "60000")
				}
				for _, c := range conns {
					c.Do("EVAL", "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0", "1", "a", "theirs")
				}
			}
		})
	}
	var ours sync.WaitGroup
	for range 3 {
		e := open(t, urlOf(easy, addrs(all)...))
		ours.Go(func() {
			for range testutil.Sized(300, 40) {
				r := long("a")
				c, err := e.Join(t.Context(), r)
				first := c
				n := 0
				for err == nil && c.State == engine.Waiting {
					time.Sleep(min(c.PollAfter, 5*time.Millisecond))
					c, err = atOnce(t, e, r)
					n++
				}
				if err != nil {
					t.Errorf("%v", err)
					return
				}
				cs, err := e.Leave(t.Context(), []engine.Claim{c})
				if err != nil || cs[0].State != engine.Held {
					t.Errorf("granted as %+v (first %+v, %d tries), left as %v %v", c, first, n, cs, err)
					return
				}
			}
		})
	}
	ours.Wait()
	close(stop)
	others.Wait()
}
