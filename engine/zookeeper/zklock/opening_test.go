package zklock

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/lab/servers"
)

// answering is a server that says one thing to whoever connects, and then waits.
func answering(t testing.TB, says string) (addr string, accepted <-chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan net.Conn, 100)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, says)
			conns <- c
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
		close(conns)
		for c := range conns {
			c.Close()
		}
	})
	return l.Addr().String(), conns
}

// A member that is stopped accepts connections and says nothing. Two of three do.
func TestOpenPassesOverMembersThatSayNothing(t *testing.T) {
	t.Parallel()
	s := beside(t)
	silent, _ := answering(t, "")
	var tried atomic.Int64
	o := Options{Servers: []string{"one:1", "two:2", "three:3"}}
	o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
		addr := s.Addr
		if tried.Add(1) <= 2 {
			addr = silent
		}
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	// On a busy machine the third may greet too late, and more are tried.
	const rounds, mostFailures = 10, 3
	failures := 0
	for range rounds {
		tried.Store(0)
		e, err := New(within(t), o) // which has a bound of its own
		if err != nil {
			if failures++; failures == mostFailures {
				t.Fatal(err)
			}
			continue
		}
		e.Close()
		if tried.Load() == 3+2 { // and what sessions may be is asked twice
			return
		}
	}
	t.Errorf("in none of %d rounds were five members tried, at last %d", rounds, tried.Load())
}

func TestOpenEndsWithItsContext(t *testing.T) {
	t.Parallel()
	silent, accepted := answering(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	returned := make(chan error)
	go func() {
		_, err := New(ctx, Options{Servers: []string{silent}})
		returned <- err
	}()
	c := <-accepted
	if _, err := io.ReadFull(c, make([]byte, requestLen)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-returned; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), silent) || !strings.Contains(err.Error(), "stopped") {
		t.Errorf("%v", err)
	}
	// And with it what was under way.
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Errorf("the connection stands: %v", err)
	}
}

func TestWhatAnswersAndIsNotZooKeeperIsNamed(t *testing.T) {
	t.Parallel()
	s := beside(t)
	for _, c := range []struct{ says, want string }{
		{"-ERR unknown command\r\n", `not ZooKeeper: it says "-ERR"`},
		{"HTTP/1.1 400 Bad Request\r\n\r\n", `not ZooKeeper: it says "HTTP"`},
		{"SSH-2.0-OpenSSH\r\n", `not ZooKeeper`},
		{"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS: use zookeepers://"},
		{"\x00\x00\x00\x24\x00\x00\x00\x00\x00\x00\x07\xd0\x01\x02\x03\x04\x05\x06\x07\x08\x7f\xff\xff\xff", "not ZooKeeper: its answer is none"},
	} {
		t.Run(c.says[:4], func(t *testing.T) {
			t.Parallel()
			addr, _ := answering(t, c.says)
			refuses(t, Options{Servers: []string{addr}}, addr, c.want)
		})
	}
	t.Run("no TLS", func(t *testing.T) {
		addr, _ := answering(t, "-ERR unknown command\r\n")
		refuses(t, Options{Servers: []string{addr}, TLS: &tls.Config{}}, addr, "speaks no TLS there")
		refuses(t, Options{Servers: []string{s.Addr}, TLS: &tls.Config{}}, s.Addr, "speaks no TLS there")
	})
	t.Run("TLS", func(t *testing.T) {
		certs := servers.MakeCerts(t)
		pair, err := tls.LoadX509KeyPair(certs.Cert, certs.Key)
		if err != nil {
			t.Fatal(err)
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, c)
				c.Close()
			}
		})
		t.Cleanup(func() { l.Close(); all.Wait() })
		refuses(t, Options{Servers: []string{l.Addr().String()}}, l.Addr().String(), "speaks TLS (zookeepers://)")
	})
}

// refuses opens until the error says what it must, for longer each time: on a busy machine
// no server may have answered by then.
func refuses(t *testing.T, o Options, addr, want string) {
	t.Helper()
	var err error
	for bound := time.Second; bound < OpenBound; bound *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		_, err = New(ctx, o)
		cancel()
		if err != nil && strings.Contains(err.Error(), want) && strings.Count(err.Error(), addr) == 1 {
			return
		}
	}
	t.Errorf("%v does not say %q of %s, once", err, want, addr)
}

// A server that is none has said so, and this is not forgotten while it is connected to again.
func TestWhatAServerSaidOutlastsTheNextConnection(t *testing.T) {
	t.Parallel()
	// round is what New says of a server that is none and then says nothing. On a busy machine
	// New may give the first connection up before the server has said anything.
	round := func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		returned := make(chan error, 1)
		go func() {
			defer l.Close()
			_, err := New(ctx, Options{Servers: []string{l.Addr().String()}})
			returned <- err
		}()
		for _, says := range []string{"HTTP/1.1 400 Bad Request\r\n\r\n", ""} {
			c, err := l.Accept()
			if err != nil {
				break // New has ended
			}
			defer c.Close()
			if _, err := io.ReadFull(c, make([]byte, requestLen)); err != nil {
				break
			}
			_, _ = io.WriteString(c, says)
		}
		cancel()
		return <-returned
	}
	var err error
	for range 3 {
		if err = round(); err != nil && strings.Contains(err.Error(), `it says "HTTP"`) {
			return
		}
	}
	t.Error(err)
}
