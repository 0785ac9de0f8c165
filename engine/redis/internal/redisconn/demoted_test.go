package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"leasehold/lab/servers"
)

// front is a client of one address, which leads to a server until it leads to the next.
func front(t *testing.T) (c *Client, old *servers.RedisServer, next func(), dials *atomic.Int32) {
	t.Helper()
	old, other := servers.Redis(t, nil), servers.Redis(t, nil)
	p := servers.ProxyTo(t, old.Addr)
	target, err := ParseURL("redis://" + p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	dials = &atomic.Int32{}
	target.redis.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		dials.Add(1)
		return d.DialContext(ctx, "tcp", addr)
	}
	if c, err = Dial(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, old, func() { p.Retarget(other.Addr) }, dials
}

// demote has a server be a replica. Its primary is away, so it never loads and always answers.
func demote(t *testing.T, r *servers.RedisServer) {
	t.Helper()
	if _, err := r.Do("REPLICAOF", "127.0.0.1", "1"); err != nil {
		t.Fatal(err)
	}
}

// A primary that became a replica answers for as long as a connection to it stands. Behind one
// address only a new one leads to the server that has taken its place.
func TestAConnectionThatLeadsToAReplicaIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	write, call := NewScript("return redis.call('INCR', KEYS[1])"), Call{Keys: []string{"a"}}
	for how, write := range map[string]func(context.Context, *Client) error{
		"a call": func(ctx context.Context, c *Client) error { return c.Call(ctx, write, call).Error() },
		"calls that go out together": func(ctx context.Context, c *Client) error {
			return c.CallMany(ctx, write, []Call{call, call, call})[2].Error()
		},
		"a command": func(ctx context.Context, c *Client) error { return c.Ask(ctx, "INCR", "a").Error() },
		"a synced call": func(ctx context.Context, c *Client) error {
			return c.CallSynced(ctx, 0, write, []Call{call})[0].Error()
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c, old, next, dials := front(t)
			if err := write(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			demote(t, old)
			before := dials.Load()
			for failed := range int32(3) {
				if err := write(t.Context(), c); err == nil || !strings.Contains(err.Error(), "replica") {
					t.Fatalf("at the replica: %v", err)
				}
				if n := dials.Load() - before; n > failed+1 {
					t.Errorf("%d connections were made after %d calls had failed, want one for each at most", n, failed+1)
				}
			}
			next()
			if err := write(t.Context(), c); err != nil {
				t.Errorf("the address leads to another server by now: %v", err)
			}
		})
	}
}

// The answer to a call that went by an earlier connection says nothing of the one that stands.
func TestALateAnswerOfAReplicaEndsNoNewConnection(t *testing.T) {
	t.Parallel()
	c, old, next, _ := front(t)
	_, earlier := c.enter(t.Context(), nil)
	c.leave()
	demote(t, old)
	late := c.Ask(t.Context(), "INCR", "a")
	if !demoted(late.Error()) {
		t.Fatalf("void: at the replica: %v", late.Error())
	}
	next()
	first := connection(t, c)
	c.endDemoted(earlier, late)
	if now := connection(t, c); now != first {
		t.Errorf("connection %d follows %d, which led to the new primary", now, first)
	}
}

// What servers say by themselves and, inside a script, before Redis 7.0.
func TestWhatAReplicaSays(t *testing.T) {
	t.Parallel()
	c, _ := dialed(t, nil)
	for said, want := range map[string]bool{
		"READONLY You can't write against a read only replica.":                                                                           true,
		"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.": true,
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                                true,
		"LOADING Redis is loading the dataset in memory":                                                                                  false,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                         false,
	} {
		a := c.Call(t.Context(), NewScript("return redis.error_reply(ARGV[1])"), Call{Args: []string{said}})
		if got := demoted(a.Error()); got != want {
			t.Errorf("%v: a replica: %v, want %v", a.Error(), got, want)
		}
	}
}
