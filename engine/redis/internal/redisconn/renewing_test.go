package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// renewing has the next new connection of a client made by dial, once; later ones as usual. Calls
// have overlapped, so the client asks for one in its next settled calls.
func renewing(t *testing.T, c *Client, r *servers.RedisServer, dial func(usual func() (net.Conn, error)) (net.Conn, error)) {
	t.Helper()
	var made atomic.Bool
	c.lone.options.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		usual := func() (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
		if made.Swap(true) {
			return usual()
		}
		return dial(usual)
	}
	overlaps(t, c, r, func() { blocks(t, c) })
}

// A call that begins while the new connection is made goes by the old one, which therefore stays.
func TestACallThatBeganMeanwhileKeepsItsConnection(t *testing.T) {
	t.Parallel()
	c, r := dialed(t, nil)
	c.lone.bound = testutil.Patience
	first := connection(t, c)
	var other sync.WaitGroup
	renewing(t, c, r, func(usual func() (net.Conn, error)) (net.Conn, error) {
		other.Go(func() {
			if err := c.Ask(t.Context(), "BLPOP", "none", "0.3").Error(); !rueidis.IsRedisNil(err) {
				t.Errorf("the other call was broken off: %v", err)
			}
		})
		testutil.Until(t, "the other call is not under way", func() bool {
			c.lone.mu.Lock()
			defer c.lone.mu.Unlock()
			return c.lone.under == 2
		})
		return usual()
	})
	for range settled {
		if now := connection(t, c); now != first {
			t.Fatalf("connection %d follows %d, which another call needs", now, first)
		}
	}
	other.Wait()
}

// A server that does not answer who connects delays one call, for the bound of a renewal.
func TestANewConnectionThatHangsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	c, r := dialed(t, nil)
	first := connection(t, c)
	hangs := make(chan struct{})
	t.Cleanup(func() { close(hangs) })
	renewing(t, c, r, func(usual func() (net.Conn, error)) (net.Conn, error) {
		<-hangs
		return usual()
	})
	for range settled {
		if now := connection(t, c); now != first {
			t.Fatalf("connection %d follows %d", now, first)
		}
	}
}

// Close ends the connection that was renewed, and one that is made while it closes.
func TestNoNewConnectionOutlastsClose(t *testing.T) {
	t.Parallel()
	t.Run("renewed", func(t *testing.T) {
		t.Parallel()
		c, r := dialed(t, nil)
		c.lone.bound = testutil.Patience
		overlaps(t, c, r, func() { blocks(t, c) })
		for range 2 * settled {
			connection(t, c)
		}
		c.Close()
		noneIsLeft(t, r)
	})
	t.Run("while it closes", func(t *testing.T) {
		t.Parallel()
		c, r := dialed(t, nil)
		c.lone.bound = testutil.Patience
		renewing(t, c, r, func(usual func() (net.Conn, error)) (net.Conn, error) {
			conn, err := usual()
			c.end() // these two are what Close does: it may look at the link before the call does
			c.lone.close()
			return conn, err
		})
		for range settled {
			_ = c.Ask(t.Context(), "PING").Error()
		}
		noneIsLeft(t, r)
	})
}

func noneIsLeft(t *testing.T, r *servers.RedisServer) {
	t.Helper()
	testutil.Until(t, "a connection of the client stands", func() bool {
		list, err := r.Do("CLIENT", "LIST", "TYPE", "normal")
		return err == nil && !strings.Contains(list.(string), "name=leasehold")
	})
}
