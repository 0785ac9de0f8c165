package redisconn

import (
	"context"
	"strings"
	"testing"
	"time"

	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// synced makes a call as leases are renewed with ?replicas, but waits for none of them.
func synced(t *testing.T, c *Client) error {
	t.Helper()
	return c.CallSynced(t.Context(), 0, NewScript("return 1"), []Call{{}})[0].Error()
}

// fill has a server take no more connections.
func fill(t *testing.T, r *servers.RedisServer) {
	t.Helper()
	if _, err := r.Do("CONFIG", "SET", "maxclients", "1"); err != nil {
		t.Fatal(err)
	}
}

// A full server gives synced calls no other connection, and without renewals leases are lost.
func TestASubscriptionTakesNoConnectionOfSyncedCalls(t *testing.T) {
	t.Parallel()
	for name, sentinel := range map[string]bool{"a server": false, "Sentinel": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := dialed(t, nil)
			if sentinel {
				c, r = behindSentinel(t)
			}
			if err := synced(t, c); err != nil {
				t.Fatal(err)
			}
			fill(t, r)
			for range 3 {
				s, err := c.Listen(t.Context(), func(string) {}, func(string, string) {})
				if err != nil {
					t.Fatal(err)
				}
				if err := s.Subscribe(t.Context(), "channel"); err == nil || !strings.Contains(err.Error(), "raise its maxclients") {
					t.Errorf("Subscribe: %v", err)
				}
				if err := synced(t, c); err != nil {
					t.Fatalf("after a subscription: %v", err)
				}
				s.Close()
			}
		})
	}
}

// What the subscription leaves to synced calls is what they use next.
func TestASubscriptionBesideSyncedCallsTakesOneConnection(t *testing.T) {
	t.Parallel()
	c, r := dialed(t, nil)
	if err := synced(t, c); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		s, err := c.Listen(t.Context(), func(string) {}, func(string, string) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Subscribe(t.Context(), "channel"); err != nil {
			t.Fatal(err)
		}
		if err := synced(t, c); err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	testutil.Until(t, "a client has more than the connection of its calls and that of synced ones", func() bool {
		list, err := r.Do("CLIENT", "LIST")
		return err == nil && strings.Count(list.(string), "name=leasehold") == 2
	})
}

// behindSentinel is a client of a primary that a Sentinel names.
func behindSentinel(t *testing.T) (*Client, *servers.RedisServer) {
	t.Helper()
	s := servers.Sentinel(t, nil)
	s.Patient(t, time.Minute)
	r, err := s.Primary()
	if err != nil {
		t.Fatal(err)
	}
	target, err := ParseURL("redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + s.Master)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, err := Dial(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, r
}
