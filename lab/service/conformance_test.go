package service_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/httplock"
	"leasehold/engines"
	"leasehold/service"
)

// stage is a Server over TLS that can be started again, and loses answers.
type stage struct {
	store string
	http  *httptest.Server
	ca    string

	mu      sync.Mutex
	current *service.Server
	lose    map[string]*atomic.Bool // by the token of the client
	clients atomic.Int32
}

func newStage(t *testing.T, store string) *stage {
	st := &stage{store: store, lose: map[string]*atomic.Bool{}}
	st.start(t)
	st.http = httptest.NewUnstartedServer(st)
	st.http.EnableHTTP2 = true
	st.http.StartTLS()
	st.ca = filepath.Join(t.TempDir(), "ca.pem")
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: st.http.Certificate().Raw})
	if err := os.WriteFile(st.ca, cert, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		st.current.Drain()
		st.http.CloseClientConnections()
		st.http.Close()
		if err := st.current.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func (st *stage) start(t testing.TB) {
	eng, err := engines.Open(context.Background(), st.store)
	if err != nil {
		t.Fatal(err)
	}
	s, err := service.New(eng, nil)
	if err != nil {
		t.Fatal(err)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.current = s
}

// restart is a crash of the Server, as its clients see it, and the start of another.
func (st *stage) restart(t testing.TB) {
	st.mu.Lock()
	old := st.current
	st.mu.Unlock()
	st.start(t)
	old.Drain()
	st.http.CloseClientConnections()
	old.Close()
}

func (st *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	st.mu.Lock()
	s, lose := st.current, st.lose[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	st.mu.Unlock()
	if lose != nil && !strings.HasSuffix(r.URL.Path, "/watch") && lose.CompareAndSwap(true, false) {
		s.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	s.ServeHTTP(w, r)
}

// client opens one more, with a token of its own by which its answers can be lost.
func (st *stage) client(t testing.TB) engine.Engine {
	token := fmt.Sprint("client-", st.clients.Add(1))
	st.mu.Lock()
	st.lose[token] = &atomic.Bool{}
	st.mu.Unlock()
	e, err := httplock.Open(t.Context(), "https://:"+token+"@"+strings.TrimPrefix(st.http.URL, "https://")+"?ca="+st.ca)
	if err != nil {
		t.Fatal(err)
	}
	return named{e, token}
}

// named is a client whose token is known.
type named struct {
	engine.Engine
	token string
}

// The conformance suite, over TLS, on every engine whose claims outlive their client.
func TestConformance(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, name, store string) {
		st := newStage(t, store)
		enginetest.Run(t, enginetest.Harness{
			Name: "httplock-" + name, New: st.client, Restart: st.restart,
			Polls: name == "mariadb",                                 // it notifies no holders
			Kill:  func(_ testing.TB, e engine.Engine) { e.Close() }, // it gives nothing back
			LoseReply: func(_ testing.TB, e engine.Engine) func() bool {
				st.mu.Lock()
				lose := st.lose[e.(named).token]
				st.mu.Unlock()
				lose.Store(true)
				return func() bool { return !lose.Load() }
			},
		})
	})
}
