package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// blocks is a call that others overlap with, until overlaps ends it.
func blocks(t *testing.T, c *Client) { _ = c.Ask(t.Context(), "BLPOP", "none", "60").Error() }

// overlaps has a call overlap with another: the other's answer comes behind that of the first.
func overlaps(t *testing.T, c *Client, r *servers.RedisServer, other func()) {
	t.Helper()
	under := func(n int) {
		t.Helper()
		testutil.Until(t, "a call is not under way", func() bool {
			c.lone.mu.Lock()
			defer c.lone.mu.Unlock()
			return c.lone.under == n
		})
	}
	var both sync.WaitGroup
	both.Go(func() { blocks(t, c) })
	under(1)
	both.Go(other)
	under(2)
	// Both may block, and the client may be in another database than the first.
	if _, err := r.Do("EVAL", "for db = 0, 3 do redis.call('SELECT', db) redis.call('RPUSH', 'none', '1', '2') end", "0"); err != nil {
		t.Fatal(err)
	}
	both.Wait()
	if _, err := r.Do("FLUSHALL"); err != nil {
		t.Fatal(err)
	}
}

// connection is the number of the one that calls go over.
func connection(t *testing.T, c *Client) int64 {
	t.Helper()
	n, err := c.Ask(t.Context(), "CLIENT", "ID").AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A caller that is alone again gets a connection that is not shared: on one where calls have
// overlapped the library is slower for good.
func TestALoneCallerGetsANewConnectionAfterCallsOverlapped(t *testing.T) {
	t.Parallel()
	c, r := dialed(t, nil)
	c.lone.bound = testutil.Patience
	first := connection(t, c)
	for range 2 * settled {
		if now := connection(t, c); now != first {
			t.Fatalf("connection %d follows %d though no calls overlapped", now, first)
		}
	}
	for name, other := range map[string]func(){
		"a call": func() { blocks(t, c) },
		"calls that go out together": func() {
			script := NewScript("return 1")
			c.CallMany(t.Context(), script, []Call{{}, {}})
		},
		"questions":      func() { c.AskMany(t.Context(), []Question{{Verb: []string{"TYPE"}, Key: "a"}}) },
		"an examination": func() { _ = c.Check(t.Context(), true) },
	} {
		first := connection(t, c)
		overlaps(t, c, r, other)
		ids := map[int64]bool{}
		for range 10 * settled {
			ids[connection(t, c)] = true
		}
		if len(ids) != 2 || !ids[first] {
			t.Errorf("%s: connections %v after %d, want that one and then one new", name, ids, first)
		}
	}
	testutil.Until(t, "a connection that was replaced stands", func() bool {
		list, err := r.Do("CLIENT", "LIST", "TYPE", "normal")
		return err == nil && strings.Count(list.(string), "name=leasehold") == 1
	})
}

// Without the old connection the client could make no call: the server refuses each new one.
func TestTheOldConnectionStandsUntilTheNewOneDoes(t *testing.T) {
	t.Parallel()
	for what, setting := range map[string][2]string{
		"a server that takes no more connections": {"maxclients", "1"}, // there are two
		"a password that was changed":             {"requirepass", "another"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, r := dialed(t, nil)
			c.lone.bound = testutil.Patience
			before, err := r.Do("CONFIG", "GET", setting[0])
			if err != nil {
				t.Fatal(err)
			}
			set := func(value string) {
				t.Helper()
				if _, err := r.Do("CONFIG", "SET", setting[0], value); err != nil {
					t.Fatal(err)
				}
			}
			first := connection(t, c)
			var dials atomic.Int32
			c.lone.options.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				dials.Add(1)
				return d.DialContext(ctx, "tcp", addr)
			}
			set(setting[1])
			for range 3 {
				overlaps(t, c, r, func() { blocks(t, c) })
				for range 2 * settled {
					if now := connection(t, c); now != first {
						t.Fatalf("connection %d follows %d", now, first)
					}
				}
			}
			if n := dials.Load(); n != 3 {
				t.Errorf("it tried %d times to connect anew, want once each time that calls had overlapped", n)
			}
			set(before.([]any)[1].(string))
			overlaps(t, c, r, func() { blocks(t, c) })
			for range 2 * settled {
				connection(t, c)
			}
			if now := connection(t, c); now == first {
				t.Error("the connection is not renewed when the server takes new ones again")
			}
		})
	}
}

// The new connection has what the URL says: TLS, the password and the database.
func TestTheNewConnectionIsLikeTheOld(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{Password: "secret", TLS: true})
	for form, url := range map[string]string{
		"TCP": "redis://:secret@" + r.Addr + "/3", "TLS": "rediss://:secret@" + r.TLSAddr + "/3?ca=" + r.CAFile,
		"a socket": "unix://:secret@" + r.Socket + "?db=3",
	} {
		t.Run(form, func(t *testing.T) {
			target, err := ParseURL(url)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Dial(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.lone.bound = testutil.Patience
			first := connection(t, c)
			overlaps(t, c, r, func() { blocks(t, c) })
			for range settled {
				connection(t, c)
			}
			info, err := c.Ask(t.Context(), "CLIENT", "INFO").ToString()
			if err != nil || strings.HasPrefix(info, fmt.Sprintf("id=%d ", first)) || !strings.Contains(info, " name=leasehold ") || !strings.Contains(info, " db=3 ") {
				t.Errorf("after connection %d: %s %v", first, info, err)
			}
		})
	}
}

// A call breaks off the connection that it goes over, whichever call that was made for.
func TestALoneCallEndsOnAConnectionThatCallsTogetherMade(t *testing.T) {
	t.Parallel()
	var c *Client
	for try := 1; ; try++ { // the library closes its connection a moment before it takes no more calls by it
		var err error
		if c, err = madeTogether(t); err == nil {
			break
		}
		if try == 10 {
			t.Fatal("the library has not seen that its connection was lost: ", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := c.Ask(ctx, "BLPOP", "none", "4").Error(); !errors.Is(err, context.Canceled) {
		t.Errorf("the call went on after its context was cancelled: %v", err)
	}
}

// madeTogether is a client whose connection was made for several calls. The error is that a call
// went by the one before, which was lost.
func madeTogether(t *testing.T) (*Client, error) {
	t.Helper()
	c, r := dialed(t, nil)
	connection(t, c)
	overlaps(t, c, r, func() { blocks(t, c) }) // so the library sees at once that it is lost
	if _, err := r.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "the library does not see that its connection was lost", func() bool {
		return errors.Is((*c.lone.link.conn.Load()).SetReadDeadline(time.Time{}), net.ErrClosed)
	})
	for _, a := range c.CallMany(t.Context(), NewScript("return 1"), []Call{{}, {}}) {
		if err := errors.Join(a.Error(), a.Indeterminate); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func TestAFullServerIsNamed(t *testing.T) {
	t.Parallel()
	c, r := dialed(t, nil)
	if _, err := r.Do("CONFIG", "SET", "maxclients", "1"); err != nil {
		t.Fatal(err)
	}
	target, err := ParseURL("redis://" + r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Dial(t.Context(), target); err == nil || !strings.Contains(err.Error(), "raise its maxclients") {
		t.Errorf("Dial: %v", err)
	}
	s, err := c.Listen(t.Context(), func(string) {}, func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Subscribe(t.Context(), "channel"); err == nil || !strings.Contains(err.Error(), "raise its maxclients") {
		t.Errorf("Subscribe: %v", err)
	}
}
