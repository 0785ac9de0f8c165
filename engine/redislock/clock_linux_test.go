package redislock

import (
	"strconv"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/servers"
)

// stepped is a server whose wall clock the test steps: nothing else would show
// that Redis' own expiry and the scripts' TIME are the same clock.
type stepped struct {
	t     *testing.T
	r     *servers.RedisServer
	clock *servers.Clock
}

func steppedRedis(t *testing.T) *stepped {
	t.Helper()
	clock := servers.ShiftedClock(t)
	return &stepped{t, redis(t, &servers.RedisOptions{Env: clock.Env()}), clock}
}

// step sets the clock, and sees that the server goes by it.
func (s *stepped) step(offset time.Duration) {
	s.t.Helper()
	if err := s.clock.Set(offset); err != nil {
		s.t.Fatal(err)
	}
	sec, err := strconv.ParseInt(do(s.t, s.r, "TIME").([]any)[0].(string), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	if wrong := time.Until(time.Unix(sec, 0).Add(-offset)); wrong.Abs() > time.Minute {
		s.t.Fatalf("the server's clock is %v from where it was put: nothing is tested", wrong)
	}
}

// layouts runs a test on lines and on plain keys.
func layouts(t *testing.T, test func(t *testing.T, s *stepped, open func() engine.Engine)) {
	for name, query := range map[string]string{"lines": "", "plain": "?layout=plain"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := steppedRedis(t)
			test(t, s, func() engine.Engine { return open(t, "redis://"+s.r.Addr+query) })
		})
	}
}

func TestAClockThatStepsBackGrantsMoreThanWasAsked(t *testing.T) {
	t.Parallel()
	layouts(t, func(t *testing.T, s *stepped, open func() engine.Engine) {
		e := open()
		const long = 20 * time.Second
		requests := map[string]engine.Request{}
		for _, name := range []string{"renewed", "joined again", "shown"} { // the first call after the step
			requests[name] = exclusive(name)
			if c := renew(t, e, join(t, e, requests[name]), long); c.State != engine.Held || c.TTL != long {
				t.Fatalf("renewed as %+v", c)
			}
		}
		s.step(-time.Hour)
		// Shorter than what was asked before, and never longer than that.
		c := renew(t, e, engine.Claim{Name: "renewed", ID: requests["renewed"].ID}, 3*time.Second)
		if c.State != engine.Held || c.TTL < 3*time.Second || c.TTL > long {
			t.Errorf("an hour back, a renewal of 3s after one of 20s says %v %v", c.State, c.TTL)
		}
		c = join(t, e, requests["joined again"])
		if c.State != engine.Held || c.TTL < 3*time.Second || c.TTL > long {
			t.Errorf("an hour back, Join again says %v %v", c.State, c.TTL)
		}
		if l, err := e.Line(within(t), "shown"); err != nil || len(l.Claims) != 1 || l.Claims[0].TTL > long {
			t.Errorf("an hour back, the line is %+v %v", l, err)
		}
	})
}

func TestAClockThatStepsBackKeepsTheNameOfTheDead(t *testing.T) {
	t.Parallel()
	layouts(t, func(t *testing.T, s *stepped, open func() engine.Engine) {
		e := open()
		q := exclusive("a")
		q.WaitTTL = time.Second
		dead := join(t, e, q)
		waits := join(t, e, exclusive("a"))
		s.step(-time.Hour)
		for end := time.Now().Add(time.Minute); waits.State == engine.Waiting && time.Now().Before(end); {
			waits = renew(t, e, waits, time.Minute)
			if l, err := e.Line(within(t), "a"); err != nil || len(l.Claims) == 0 || l.Claims[0].TTL > time.Minute {
				t.Fatalf("an hour back, the line is %+v %v", l, err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if waits.State != engine.Held || waits.Ticket <= dead.Ticket {
			t.Errorf("after the dead one's TTL: %+v; its ticket was %d", waits, dead.Ticket)
		}
	})
}

func TestAClockThatStepsBackLetsTicketsFall(t *testing.T) {
	t.Parallel()
	layouts(t, func(t *testing.T, s *stepped, open func() engine.Engine) {
		e := open()
		last := uint64(0)
		for _, offset := range []time.Duration{0, -time.Minute, -time.Hour, -time.Hour} {
			s.step(offset)
			c := join(t, e, exclusive("a"))
			if c.State != engine.Held || c.Ticket <= last {
				t.Fatalf("%v off: %v, ticket %d after %d", offset, c.State, c.Ticket, last)
			}
			last = c.Ticket
			instead := exclusive("a")
			instead.Replaces = c.ID
			if c = join(t, e, instead); c.State != engine.Held || c.Ticket <= last {
				t.Fatalf("%v off, replacing: %v, ticket %d after %d", offset, c.State, c.Ticket, last)
			}
			last = c.Ticket
			leave(t, e, c)
		}
	})
}

// What a step forward did not hurt, its correction must not: a holder that was
// granted a minute keeps it over half a minute ahead and back.
func TestAStepThatIsTakenBackCutsAHolderShort(t *testing.T) {
	t.Parallel()
	layouts(t, func(t *testing.T, s *stepped, open func() engine.Engine) {
		e := open()
		c := join(t, e, exclusive("a"))
		const long = 10 * time.Minute
		c = renew(t, e, c, long)
		s.step(long / 2)
		if other := join(t, e, exclusive("a")); other.State != engine.Waiting {
			t.Fatalf("%v ahead, another is %+v", long/2, other)
		}
		s.step(0)
		if l, err := e.Line(within(t), "a"); err != nil || len(l.Claims) == 0 || l.Claims[0].Ticket != c.Ticket || l.Claims[0].TTL < long*3/4 {
			t.Errorf("back again, the line is %+v %v", l, err)
		}
		if c = renew(t, e, c, time.Second); c.State != engine.Held || c.TTL < time.Second || c.TTL > long {
			t.Errorf("back again, the holder is %+v", c)
		}
	})
}
