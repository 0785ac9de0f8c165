package redistest

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/lab/servers"
)

// LateTry: a try of a claim that waits is on its way, on a connection that its caller
// has broken off, and arrives after the claim was left, or replaced. It takes the lock
// for nobody then.
func (k Kit) LateTry(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, e engine.Engine, c engine.Claim){
		"left": func(t *testing.T, e engine.Engine, c engine.Claim) {
			if s := Leave(t, e, c); s != engine.Gone {
				t.Errorf("it was found %v", s)
			}
		},
		"replaced": func(t *testing.T, e engine.Engine, c engine.Claim) {
			q := Exclusive(c.Name)
			q.Replaces = c.ID
			if n := Join(t, e, q); n.State != engine.Held || Leave(t, e, n) != engine.Held {
				t.Errorf("in place of it is %+v", n)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := servers.Redis(t, nil)
			k.teach(t, r)
			p := servers.ProxyTo(t, r.Addr)
			e, other := k.Opened(t, "redis://"+p.Addr), k.Opened(t, "redis://"+r.Addr)
			holds := Join(t, other, Exclusive("a"))
			q := Exclusive("a")
			waits := Join(t, e, q)
			Leave(t, other, holds)

			ctx, cancel := context.WithCancel(t.Context())
			release, late := make(chan struct{}), make(chan struct{})
			var first atomic.Bool
			p.OnCommand(func(name string) {
				if strings.HasPrefix(name, "EVAL") && !first.Swap(true) {
					cancel()
					<-release
					close(late)
				}
			})
			if c, err := e.Join(ctx, q); err == nil {
				t.Errorf("void: a try that was broken off is answered: %v", c)
			}
			leave(t, e, waits)
			before := scripts(t, r)
			close(release)
			<-late
			Until(t, "the late try does not arrive", func() bool { return scripts(t, r) > before })
			if c := Join(t, other, Exclusive("a")); c.State != engine.Held {
				t.Errorf("the lock is held for nobody: who comes next is %+v", c)
			}
		})
	}
}

// scripts counts the calls of scripts.
func scripts(t testing.TB, r *servers.RedisServer) int64 {
	t.Helper()
	var stats string
	for l := range strings.Lines(Do(t, r, "INFO", "commandstats").(string)) {
		if strings.HasPrefix(l, "cmdstat_eval") {
			stats += l
		}
	}
	return CountCalls(stats)
}

// Crowded: so many clients lock and unlock one name in a tight loop, and every one is
// served. A claim that holds for nobody would stop all of them for a minute.
func (k Kit) Crowded(t *testing.T, clients, pairs int) {
	r := servers.Redis(t, nil)
	all := make([]*leasehold.Client, clients)
	for i := range all {
		c, err := leasehold.New(k.Opened(t, "redis://"+r.Addr), &leasehold.Options{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all[i] = c
	}
	AtOnce(clients, func(i int) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		for n := range pairs {
			l, err := all[i].Lock(ctx, "a")
			if err != nil {
				t.Errorf("client %d, lock %d of %d: %v", i, n, pairs, err)
				return
			}
			if err := l.Unlock(); err != nil {
				t.Errorf("client %d, unlock %d: %v", i, n, err)
			}
		}
	})
}
