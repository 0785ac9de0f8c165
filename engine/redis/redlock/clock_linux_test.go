package redlock

import (
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// TestClocksThatStep: one master's clock is its own affair, a majority's is not.
func TestClocksThatStep(t *testing.T) {
	for name, c := range map[string]struct {
		stepped int
		twice   bool
	}{"a minority": {2, false}, "a majority": {3, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := servers.ShiftedClock(t)
			all := append(masters(t, c.stepped, &servers.RedisOptions{Env: clock.Env()}), masters(t, 5-c.stepped, nil)...)
			a, b := open(t, urlOf(easy, addrs(all)...)), open(t, urlOf(easy, addrs(all)...))
			start := time.Now()
			first := join(t, a, long("a"))
			first = renew(t, a, first, time.Minute)
			// A majority has answered. Those that have not must not find the key expired, or
			// the renewal has them take it again.
			redistest.Until(t, "some masters have not renewed", func() bool {
				for _, r := range all {
					if do(t, r, "PTTL", "a").(int64) < 10_000 {
						return false
					}
				}
				return true
			})
			settled(t, a)
			if err := clock.Set(time.Hour); err != nil {
				t.Fatal(err)
			}
			expired := 0
			for _, r := range all {
				if do(t, r, "EXISTS", "a") == int64(0) {
					expired++
				}
			}
			if expired != c.stepped {
				t.Fatalf("void: %d keys have expired", expired)
			}
			r := long("a")
			second := join(t, b, r)
			// A master that answers late on a busy machine has no vote in this Join.
			for c.twice && second.State == engine.Waiting && time.Since(start) < time.Minute/2 {
				time.Sleep(second.PollAfter)
				second = join(t, b, r)
			}
			if time.Since(start) > time.Minute {
				t.Fatal("void: the hold is over")
			}
			if held := second.State == engine.Held; held != c.twice {
				t.Errorf("the second is %+v", second)
			}
			if c.twice {
				return
			}
			leave(t, a, first)
			for second.State == engine.Waiting {
				time.Sleep(second.PollAfter)
				second = renew(t, b, second, 3*time.Second)
			}
			// The wrong clocks have no say in the ticket.
			if soon := uint64(time.Now().Add(time.Minute).UnixMicro()); second.Ticket <= first.Ticket || second.Ticket > soon {
				t.Errorf("ticket %d after %d", second.Ticket, first.Ticket)
			}
		})
	}
}
