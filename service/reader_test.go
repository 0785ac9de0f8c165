package service

import (
	"context"
	"fmt"
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

// hasty is an answer whose deadlines come a hundred times as soon. A handler that sets none has
// none.
type hasty struct{ http.ResponseWriter }

func (h hasty) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(h.ResponseWriter).SetWriteDeadline(time.Now().Add(time.Until(at) / 100))
}

func (h hasty) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// A caller that asks for a list and never reads it is cut off, and its request ends.
func TestACallerThatNeverReadsIsCutOff(t *testing.T) {
	for at, body := range map[string]string{"POST " + remote.PathQueues: `{}`, "GET /v1/queues": ``, "GET /v1/watch": ``} {
		method, path, _ := strings.Cut(at, " ")
		for _, protocol := range []string{"HTTP/1.1", "HTTP/2"} {
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
					if err == nil {
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
				case <-time.After(30 * time.Second):
					t.Error("its request goes on")
				}
			})
		}
	}
}
