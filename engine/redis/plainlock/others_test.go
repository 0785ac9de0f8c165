package plainlock

import (
	"errors"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

func TestPlainReplacesTakesWhatSomebodyElseHolds(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e, other := open(t, "redis://"+r.Addr+"?layout=plain"), open(t, "redis://"+r.Addr+"?layout=plain")
	for name, hold := range map[string]func(name string){
		"another client's":  func(name string) { join(t, other, exclusive(name)) },
		"another program's": func(name string) { do(t, r, "SET", name, "theirs", "NX", "PX", "60000") },
	} {
		t.Run(name, func(t *testing.T) {
			hold(name)
			before := do(t, r, "GET", name)
			first := join(t, e, exclusive(name))
			for range 2 { // replacing what waits, and what is in no queue at all
				q := exclusive(name)
				q.Replaces = first.ID
				if c := join(t, e, q); c.State != engine.Waiting {
					t.Errorf("replacing a claim that waits: %+v", c)
				}
				first.ID = engine.NewID()
			}
			if now := do(t, r, "GET", name); now != before {
				t.Errorf("the lock was %v, and is %v", before, now)
			}
		})
	}
	t.Run("its own", func(t *testing.T) {
		first := join(t, e, exclusive("mine"))
		q := exclusive("mine")
		q.Replaces = first.ID
		if c := join(t, e, q); c.State != engine.Held || c.Ticket <= first.Ticket {
			t.Errorf("replacing one's own hold: %+v after %+v", c, first)
		}
		if c := renew(t, e, first, time.Second); c.State != engine.Gone {
			t.Errorf("the claim that was replaced is %v", c.State)
		}
	})
}

// A crash between SETNX and EXPIRE leaves a key without expiry, and GETSET with
// a timestamp never sets one: nobody frees it by itself.
func TestPlainKeyWithoutExpiryCannotBeRevoked(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := open(t, "redis://"+r.Addr+"?layout=plain")
	holder := func(name string) engine.Claim {
		t.Helper()
		l, err := e.Queue(within(t), name)
		if err != nil || len(l.Claims) != 1 {
			t.Fatalf("%s: %+v %v", name, l, err)
		}
		return l.Claims[0]
	}

	do(t, r, "SET", "stuck", "theirs")
	if c := holder("stuck"); c.State != engine.Held || c.TTL != 0 || c.Ticket != 0 {
		t.Errorf("a key without expiry is shown as %+v", c)
	}
	if err := e.Revoke(within(t), "stuck", 0, false); !errors.Is(err, engine.ErrNoClaim) {
		t.Errorf("revoked without saying at once: %v", err)
	}
	if do(t, r, "GET", "stuck") != "theirs" {
		t.Fatal("the key is gone")
	}
	waits := join(t, e, exclusive("stuck"))
	if err := e.Revoke(within(t), "stuck", 0, true); err != nil {
		t.Errorf("Revoke at once: %v", err)
	}
	if c := renew(t, e, waits, time.Second); c.State != engine.Held {
		t.Errorf("who waited is %v", c.State)
	}

	t.Run("a hold that ends by itself is revoked", func(t *testing.T) {
		do(t, r, "SET", "living", "theirs", "PX", "60000")
		if c := holder("living"); c.TTL <= 0 || c.TTL > time.Minute {
			t.Errorf("shown as %+v", c)
		}
		mine := join(t, e, exclusive("mine"))
		for _, name := range []string{"living", "mine", "free"} {
			if err := e.Revoke(within(t), name, 0, true); !errors.Is(err, engine.ErrNoClaim) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if do(t, r, "GET", "living") != "theirs" || renew(t, e, mine, time.Second).State != engine.Held {
			t.Error("a hold that ends by itself was ended")
		}
	})
	t.Run("our own that lost its expiry", func(t *testing.T) {
		mine := join(t, e, exclusive("kept"))
		do(t, r, "PERSIST", "kept")
		if c := holder("kept"); c.TTL != 0 || c.Ticket != mine.Ticket {
			t.Errorf("shown as %+v", c)
		}
		if err := e.Revoke(within(t), "kept", mine.Ticket, true); err != nil {
			t.Error(err)
		}
		if c := join(t, e, exclusive("kept")); c.State != engine.Held {
			t.Errorf("revoked, and the next is %v", c.State)
		}
	})
}
