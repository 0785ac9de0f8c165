package redistest

import (
	"strconv"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
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
	return &stepped{t, servers.Redis(t, &servers.RedisOptions{Env: clock.Env()}), clock}
}

// step sets the clock, and sees that the server goes by it.
func (s *stepped) step(offset time.Duration) {
	s.t.Helper()
	if err := s.clock.Set(offset); err != nil {
		s.t.Fatal(err)
	}
	sec, err := strconv.ParseInt(Do(s.t, s.r, "TIME").([]any)[0].(string), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	if wrong := time.Until(time.Unix(sec, 0).Add(-offset)); wrong.Abs() > time.Minute {
		s.t.Fatalf("the server's clock is %v from where it was put: nothing is tested", wrong)
	}
}

// ClockSteps is what a server's clock that steps must not bring about.
func (k Kit) ClockSteps(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *stepped, engine.Engine){
		"a step back grants more than was asked":      grantedMore,
		"a step back keeps the name of the dead":      keptByTheDead,
		"a step back lets tickets fall":               ticketsFall,
		"a step that is taken back cuts a hold short": cutShort,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := steppedRedis(t)
			test(t, s, k.Opened(t, "redis://"+s.r.Addr))
		})
	}
}

func grantedMore(t *testing.T, s *stepped, e engine.Engine) {
	const long = 20 * time.Second
	requests := map[string]engine.Request{}
	for _, name := range []string{"renewed", "joined again", "shown"} { // the first call after the step
		q := Exclusive(name)
		q.WaitTTL = 3 * time.Second
		requests[name] = q
		if c := Renew(t, e, Join(t, e, q), long); c.State != engine.Held || c.TTL != long {
			t.Fatalf("renewed as %+v", c)
		}
	}
	s.step(-time.Hour)
	// Shorter than what was asked before, and never longer than that.
	c := Renew(t, e, engine.Claim{Name: "renewed", ID: requests["renewed"].ID}, 3*time.Second)
	if c.State != engine.Held || c.TTL < 3*time.Second || c.TTL > long {
		t.Errorf("an hour back, a renewal of 3s after one of 20s says %v %v", c.State, c.TTL)
	}
	c = Join(t, e, requests["joined again"])
	if c.State != engine.Held || c.TTL < 3*time.Second || c.TTL > long {
		t.Errorf("an hour back, Join again says %v %v", c.State, c.TTL)
	}
	if l, err := e.Queue(Within(t), "shown"); err != nil || len(l.Claims) != 1 || l.Claims[0].TTL > long {
		t.Errorf("an hour back, the line is %+v %v", l, err)
	}
}

func keptByTheDead(t *testing.T, s *stepped, e engine.Engine) {
	q := Exclusive("a")
	q.WaitTTL = time.Second
	dead := Join(t, e, q)
	waits := Join(t, e, Exclusive("a"))
	s.step(-time.Hour)
	for end := time.Now().Add(time.Minute); waits.State == engine.Waiting && time.Now().Before(end); {
		waits = Renew(t, e, waits, time.Minute)
		if l, err := e.Queue(Within(t), "a"); err != nil || len(l.Claims) > 0 && l.Claims[0].TTL > time.Minute { // none: the dead one's ended just now
			t.Fatalf("an hour back, the line is %+v %v", l, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if waits.State != engine.Held || waits.Ticket <= dead.Ticket {
		t.Errorf("after the dead one's TTL: %+v; its ticket was %d", waits, dead.Ticket)
	}
}

func ticketsFall(t *testing.T, s *stepped, e engine.Engine) {
	last := uint64(0)
	for _, offset := range []time.Duration{0, -time.Minute, -time.Hour, -time.Hour} {
		s.step(offset)
		c := Join(t, e, Exclusive("a"))
		if c.State != engine.Held || c.Ticket <= last {
			t.Fatalf("%v off: %v, ticket %d after %d", offset, c.State, c.Ticket, last)
		}
		last = c.Ticket
		instead := Exclusive("a")
		instead.Replaces = c.ID
		if c = Join(t, e, instead); c.State != engine.Held || c.Ticket <= last {
			t.Fatalf("%v off, replacing: %v, ticket %d after %d", offset, c.State, c.Ticket, last)
		}
		last = c.Ticket
		Leave(t, e, c)
	}
}

// What a step forward did not hurt, its correction must not: a holder that was
// granted a minute keeps it over half a minute ahead and back.
func cutShort(t *testing.T, s *stepped, e engine.Engine) {
	c := Join(t, e, Exclusive("a"))
	const long = 10 * time.Minute
	c = Renew(t, e, c, long)
	s.step(long / 2)
	if other := Join(t, e, Exclusive("a")); other.State != engine.Waiting {
		t.Fatalf("%v ahead, another is %+v", long/2, other)
	}
	s.step(0)
	if l, err := e.Queue(Within(t), "a"); err != nil || len(l.Claims) == 0 || l.Claims[0].Ticket != c.Ticket || l.Claims[0].TTL < long*3/4 {
		t.Errorf("back again, the line is %+v %v", l, err)
	}
	if c = Renew(t, e, c, time.Second); c.State != engine.Held || c.TTL < time.Second || c.TTL > long {
		t.Errorf("back again, the holder is %+v", c)
	}
}
