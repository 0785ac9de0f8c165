package service

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/remote"
)

// wordy is an engine whose list of queues is larger than all that lies between two ends of a
// connection.
type wordy struct{ engine.Engine }

func (wordy) Queues(ctx context.Context, _ string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		long := strings.Repeat("x", 500)
		for i := range maxQueues {
			c := engine.Claim{Ticket: 1, Owner: engine.Owner{Label: long}, Permits: 1, State: engine.Waiting}
			if !yield(engine.Queue{Name: fmt.Sprintf("%06d", i) + long, Limit: 1, Claims: []engine.Claim{c}}, nil) {
				return
			}
		}
	}
}

// hasty is an answer whose deadlines come ten times as soon. A handler that sets none has
// none.
type hasty struct{ http.ResponseWriter }

func (h hasty) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(h.ResponseWriter).SetWriteDeadline(time.Now().Add(time.Until(at) / 10))
}

func (h hasty) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// A caller that asks for a list and never reads it is cut off, and its request ends. In a short run
// each list is asked for over one protocol.
func TestACallerThatNeverReadsIsCutOff(t *testing.T) {
	for at, body := range map[string]string{"POST " + remote.PathQueues: `{}`, "GET /v1/queues": ``, "GET /v1/watch": ``} {
		method, path, _ := strings.Cut(at, " ")
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
			if testing.Short() && (path == "/v1/queues") != (protocol == "HTTP/1.1") {
				continue
			}
			t.Run(path+" over "+protocol, func(t *testing.T) {
				t.Parallel()
				s, err := New(wordy{store(t).Engine()}, nil)
				if err != nil {
					t.Fatal(err)
				}
				ended := make(chan struct{})
				h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					defer close(ended)
					s.ServeHTTP(hasty{w}, r)
				}))
				h.Config.Protocols = new(http.Protocols)
				h.Config.Protocols.SetHTTP1(true)
				h.Config.Protocols.SetUnencryptedHTTP2(true)
				h.Start()
				t.Cleanup(func() {
					h.CloseClientConnections()
					h.Close()
					s.Close()
				})
				dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
					c, err := new(net.Dialer).DialContext(ctx, network, addr)
					if err == nil && protocol == "HTTP/1.1" { // HTTP/2 has a window of its own
						c.(*net.TCPConn).SetReadBuffer(4 << 10)
					}
					return c, err
				}
				client := &http.Transport{DialContext: dial, Protocols: new(http.Protocols)}
				client.Protocols.SetHTTP1(protocol == "HTTP/1.1")
				client.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2")
				defer client.CloseIdleConnections()
				q, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				a, err := client.RoundTrip(q)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Body.Close()
				select { // the caller is there, and reads nothing
				case <-ended:
				case <-time.After(time.Minute):
					t.Error("its request goes on")
				}
			})
		}
	}
}

// A caller of HTTP/2 that never reads from its connection is cut off, though it goes on sending:
// the end of one of its requests could not be written to it either.
func TestAConnectionThatIsNeverReadIsCutOff(t *testing.T) {
	t.Parallel()
	s, err := New(wordy{store(t).Engine()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	at, _ := run(t, s, "127.0.0.1:0", RunOptions{})
	c, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	frame := func(kind, flags byte, stream uint32, body string) {
		n := len(body)
		head := []byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, byte(stream)}
		c.Write(append(head, body...))
	}
	io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	frame(4, 0, 0, "\x00\x04\x7f\xff\xff\xff")                    // SETTINGS: the largest window of a stream
	frame(8, 0, 0, "\x7f\x00\x00\x00")                            // WINDOW_UPDATE: that of the connection
	frame(1, 5, 1, "\x82\x86\x04\x0a/v1/queues\x01\x09localhost") // HEADERS: GET
	until(t, "the request does not come", func() bool { return s.counts.underWay.Load() == 1 })
	for end := time.Now().Add(5 * answerWithin); s.counts.underWay.Load() != 0; time.Sleep(time.Second) {
		if time.Now().After(end) {
			t.Fatal("its request goes on")
		}
		frame(8, 0, 0, "\x00\x00\x00\x01") // so no ping is due
	}
}

// written is an answer that remembers whether its first byte had a deadline.
type written struct {
	*httptest.ResponseRecorder
	deadline, first time.Time
}

func (w *written) SetWriteDeadline(at time.Time) error {
	w.deadline = at
	return nil
}

func (w *written) Write(b []byte) (int, error) {
	if w.first.IsZero() {
		w.first = w.deadline
	}
	return w.ResponseRecorder.Write(b)
}

func (w *written) WriteString(text string) (int, error) { return w.Write([]byte(text)) }

// Over HTTP/2 a caller that grants no window, and answers pings, is cut off by nothing else.
func TestEveryAnswerHasADeadline(t *testing.T) {
	s, _ := plainly(t, store(t).Engine(), nil)
	for _, at := range []string{
		"GET /livez", "GET /openapi.json", "GET /metrics", "GET /ui/", "GET /nowhere", "PATCH /v1/locks/a", "POST /v1/locks/a", "GET /v1/queues", "POST " + remote.PathQueues,
	} {
		method, path, _ := strings.Cut(at, " ")
		w := &written{ResponseRecorder: httptest.NewRecorder()}
		s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader("{}")))
		if w.first.IsZero() {
			t.Errorf("%s: %d with %d bytes, and no deadline", at, w.Code, w.Body.Len())
		}
	}
}
