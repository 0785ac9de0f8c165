package queuelock

import (
	"maps"
	"testing"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

func TestUncontendedLockIsTwoRequests(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := newEngine(t, p.Addr)
	leave(t, e, join(t, e, exclusive("warm"))) // teaches Join
	p.Forget()
	for range 10 {
		c := join(t, e, exclusive("a"))
		if c.State != engine.Held || c.Contended {
			t.Fatalf("joined as %+v", c)
		}
		if s := leave(t, e, c); s != engine.Held {
			t.Fatalf("left as %v", s)
		}
	}
	if got, want := requests(p), map[string]int{"EVALSHA": 20}; !maps.Equal(got, want) {
		t.Errorf("on the wire: %v, want %v", got, want)
	}
}

// requests are the commands that passed the proxy, without what rueidis says
// of itself when it opens a further connection or keeps one alive.
func requests(p *servers.Proxy) map[string]int {
	seen := p.Commands()
	for _, own := range []string{"PING", "HELLO", "CLIENT SETINFO"} {
		delete(seen, own)
	}
	return seen
}

func TestWhoBecomesHeldIsNotifiedAndNobodyElse(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	var es [4]*Engine
	var received [4]<-chan engine.Claim
	for i := range es {
		es[i] = newEngine(t, r.Addr)
		received[i] = watch(t, es[i])
	}
	holder := join(t, es[0], exclusive("a"))
	next := join(t, es[1], exclusive("a"))
	if c := expect(t, received[0], func(c engine.Claim) bool { return c.ID == holder.ID }); !c.Contended || c.State != engine.Held {
		t.Errorf("the holder heard %+v", c)
	}
	join(t, es[2], exclusive("a"))
	if next.State != engine.Waiting || next.PollAfter <= 0 || next.PollAfter > redistest.WaitTTL {
		t.Errorf("joined as %+v", next)
	}
	if s := leave(t, es[0], holder); s != engine.Held {
		t.Errorf("left as %v", s)
	}
	c := expect(t, received[1], func(c engine.Claim) bool { return c.Name == "a" })
	if c.State != engine.Held || c.ID != next.ID || c.Ticket != next.Ticket || !c.Contended {
		t.Errorf("the next one heard %+v", c)
	}
	for _, i := range []int{0, 2, 3} {
		select {
		case c := <-received[i]:
			t.Errorf("client %d heard %+v", i, c)
		default:
		}
	}
}

func TestHandOverCostsTheSameHoweverManyWait(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	for _, waiting := range []int{8, 100, 500} {
		p := servers.ProxyTo(t, r.Addr)
		e := newEngine(t, p.Addr)
		c := join(t, e, long("a"))
		for range waiting {
			join(t, e, long("a"))
		}
		calls := func() int64 {
			v, err := r.Do("INFO", "commandstats")
			if err != nil {
				t.Fatal(err)
			}
			return redistest.CountCalls(v.(string))
		}
		p.Forget()
		before := calls()
		leave(t, e, c)
		if got, want := requests(p), map[string]int{"EVALSHA": 1}; !maps.Equal(got, want) {
			t.Errorf("on the wire with %d waiting: %v, want %v", waiting, got, want)
		}
		// The script's own calls: TIME, HGET m, HGET of the two, HDEL, HSET,
		// PUBLISH, the EVALSHA itself, and the INFO that counts them.
		if n := calls() - before; n > 10 {
			t.Errorf("%d calls inside the server with %d waiting", n, waiting)
		}
		e.Close()
	}
}
