package exporter

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// pipes is a listener of connections in memory, which a bubble can wait for.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// connect is the client's end of a new connection.
func (p *pipes) connect() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
}

const request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

// serve has an exporter of a slow engine serve, and returns how to end it.
func serve(t *testing.T, slow time.Duration) (p *pipes, end func() error) {
	eng := &fake{queues: slices.Values([]engine.Queue{queue("a", 1)}), before: func(context.Context) error {
		time.Sleep(slow)
		return nil
	}}
	x := newExporter(t, eng, nil)
	p = newPipes()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- x.Serve(ctx, p, log.New(io.Discard, "", 0)) }()
	return p, func() error {
		cancel()
		return <-ended
	}
}

// untilClosed reads until the server closes, and says how long that took.
func untilClosed(t *testing.T, c net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	return time.Since(began)
}

// Whoever connects and says nothing more is not kept.
func TestConnectionsHaveABound(t *testing.T) {
	for what, c := range map[string]struct {
		says  string
		bound time.Duration
	}{
		"no word":               {"", headerTime},
		"half a request":        {"GET /metrics HTTP/1.1\r\nHost:", headerTime},
		"a request, then never": {request, idleTime},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, end := serve(t, 0)
				conn := p.connect()
				if _, err := io.WriteString(conn, c.says); err != nil {
					t.Fatal(err)
				}
				if took := untilClosed(t, conn); took > c.bound+time.Second {
					t.Errorf("it was kept for %v, want %v", took, c.bound)
				}
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A scrape that is under way is answered, however the end comes; no new one begins.
func TestAGracefulEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, end := serve(t, 3*time.Second)
		conn := p.connect()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the reading goes on
		began := time.Now()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("the scrape was not answered: %v", err)
				return
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Error(err)
			}
			says(t, string(body), `engine_up 1`)
		}()
		if err := end(); err != nil {
			t.Error(err)
		}
		<-answered
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the end took %v, want that of the scrape, 3s", took)
		}
		select {
		case <-p.closed:
		default:
			t.Error("it still listens")
		}
	})
}

// Who does not read the answer does not keep the process.
func TestTheEndHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, end := serve(t, 0)
		conn := p.connect()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the answer waits for its reader
		began := time.Now()
		if err := end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the end took %v, want 6s at most", took)
		}
	})
}
