package redis_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

var layouts = map[string]string{"queues": "redis://%s?x", "plain": "redis://%s?layout=plain", "redisson": "redisson://%s?kind=lock"}

func urlOf(layout, addr string) string {
	return strings.TrimSuffix(strings.Replace(layouts[layout], "%s", addr, 1), "?x")
}

func and(url, param string) string {
	if strings.Contains(url, "?") {
		return url + "&" + param
	}
	return url + "?" + param
}

// TestAServerWithReplicasMayDouble: behind one address one of them takes over.
func TestAServerWithReplicasMayDouble(t *testing.T) {
	t.Parallel()
	alone, primary, replica := servers.Redis(t, nil), servers.Redis(t, nil), servers.Redis(t, nil)
	host, port, _ := strings.Cut(primary.Addr, ":")
	alive := map[string]engine.Engine{}
	for layout := range layouts {
		alive[layout] = open(t, urlOf(layout, primary.Addr))
	}
	for layout, e := range alive {
		if g := e.Guarantees(); g.Failover != engine.FailoverNone {
			t.Errorf("%s, no replica: %v", layout, g.Failover)
		}
		if err := e.(engine.Checker).Check(within(t)); err != nil {
			t.Errorf("%s, no replica: %v", layout, err)
		}
	}
	do(t, replica, "REPLICAOF", host, port)
	redistest.Until(t, "it has no replica", func() bool {
		n, err := primary.Info("connected_slaves")
		return err == nil && n == strconv.Itoa(1)
	})
	do(t, alone, "ACL", "SETUSER", "mute", "on", ">p", "~*", "&*", "+@all", "-info")
	for layout := range layouts {
		for what, url := range map[string]string{
			"a replica": urlOf(layout, primary.Addr), "?failover": and(urlOf(layout, alone.Addr), "failover"),
			"nobody may ask": urlOf(layout, "mute:p@"+alone.Addr),
		} {
			e := open(t, url)
			if g := e.Guarantees(); g.Failover != engine.FailoverMayDouble {
				t.Errorf("%s, %s: %v", layout, what, g.Failover)
			}
			if err := e.(engine.Checker).Check(within(t)); err != nil {
				t.Errorf("%s, %s: %v", layout, what, err)
			}
		}
		// Who was opened before is told.
		if err := alive[layout].(engine.Checker).Check(within(t)); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "1 replicas") {
			t.Errorf("%s: it has a replica by now: %v", layout, err)
		}
	}
}

// A server behind one address is demoted, and the address leads to another. Who was connected
// locks there.
func TestAClientFollowsItsAddressToTheNewPrimary(t *testing.T) {
	t.Parallel()
	old, next := servers.Redis(t, nil), servers.Redis(t, nil)
	p := servers.ProxyTo(t, old.Addr)
	clients := map[string]engine.Engine{}
	for layout := range layouts {
		clients[layout] = open(t, urlOf(layout, p.Addr))
	}
	do(t, old, "REPLICAOF", "127.0.0.1", "1") // nobody is there: it never loads, and always answers
	for layout, e := range clients {
		if _, err := e.Join(within(t), redistest.Exclusive("a"+layout)); err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "READONLY") {
			t.Errorf("%s, at the replica: %v", layout, err)
		}
	}
	p.Retarget(next.Addr)
	for layout, e := range clients {
		if c := redistest.Join(t, e, redistest.Exclusive("b"+layout)); c.State != engine.Held {
			t.Errorf("%s, at the new primary: %+v", layout, c)
		}
	}
}

// TestSettingsAreLookedAtAgain: they change under a client that lives.
func TestSettingsAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for layout := range layouts {
		e, allows := open(t, urlOf(layout, r.Addr)), open(t, and(urlOf(layout, r.Addr), "allow-eviction"))
		check := func(e engine.Engine) error { return e.(engine.Checker).Check(within(t)) }
		if err := errors.Join(check(e), check(allows)); err != nil {
			t.Errorf("%s: %v", layout, err)
		}
		do(t, r, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
		if err := check(e); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "maxmemory-policy allkeys-lru") {
			t.Errorf("%s: it may drop keys by now: %v", layout, err)
		}
		if err := check(allows); err != nil {
			t.Errorf("%s: that was allowed: %v", layout, err)
		}
		do(t, r, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		if err := check(e); err != nil {
			t.Errorf("%s: %v", layout, err)
		}
	}
	p := servers.ProxyTo(t, r.Addr)
	e := open(t, urlOf("queues", p.Addr))
	p.Refuse(true)
	p.Reset()
	if err := e.(engine.Checker).Check(within(t)); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("nothing was learned: %v", err)
	}
	p.Refuse(false)
	if err := e.(engine.Checker).Check(within(t)); err != nil {
		t.Errorf("connected again: %v", err)
	}
}
