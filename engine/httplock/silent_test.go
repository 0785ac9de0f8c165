package httplock

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/internal/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers calls as its handlers say, and with nothing where it has none, until the test
// is over.
type server struct {
	*httptest.Server
	lives, calls atomic.Int32 // how often it was asked
}

func serve(t *testing.T, handlers map[string]http.HandlerFunc) *server {
	s := &server{}
	over := make(chan struct{})
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" {
			s.lives.Add(1)
		} else {
			s.calls.Add(1)
		}
		if h := handlers[r.URL.Path]; h != nil {
			h(w, r)
			return
		}
		<-over
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() {
		close(over)
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func says(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(v) }
}

// of is an engine of these servers, whose calls have no bound but that of the test.
func of(t *testing.T, servers ...*server) *Engine {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, strings.TrimPrefix(s.URL, "http://"))
	}
	e, err := newEngine("http://" + strings.Join(addrs, ","))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*http.Client{e.brief, e.shared} {
		c.Transport.(*http.Transport).ResponseHeaderTimeout = 0
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func request() engine.Request {
	return engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Minute}
}

var held = remote.JoinAnswer{Claim: &remote.Claim{Name: "a", Ticket: 7, State: engine.Held}}

// A server that is stopped takes connections and answers nothing. The calls to it end, and the
// next ones go to the next server.
func TestASilentServerIsLeft(t *testing.T) {
	for try := 1; ; try++ {
		asked, calls := leaveASilentServer(t)
		if asked == 1 && calls == 20 || t.Failed() {
			return
		}
		if asked > 1 || calls > 20 || try == 3 {
			t.Fatalf("the first server was asked %d times whether it lives, and got %d calls; 20 were made, and none is repeated here", asked, calls)
		}
		t.Logf("the first server was late: it saw %d questions and %d calls", asked, calls)
	}
}

// leaveASilentServer makes 20 calls of a silent server at once, and one of the next server. It
// returns how often the first was asked whether it lives, and how many calls it got.
func leaveASilentServer(t *testing.T) (asked, calls int32) {
	first := serve(t, nil)
	second := serve(t, map[string]http.HandlerFunc{remote.PathJoin: says(held), "/livez": says(nil)})
	e := of(t, first, second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // bounds what hangs, and measures nothing
	defer cancel()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if _, err := e.Join(ctx, request()); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), "answers nothing") {
				t.Errorf("a Join: %v", err)
			}
		})
		all.Go(func() {
			if _, err := e.Leave(ctx, []engine.Claim{{Name: "a", ID: engine.NewID()}}); err == nil || ctx.Err() != nil {
				t.Errorf("a Leave: %v", err)
			}
		})
	}
	all.Wait()
	if c, err := e.Join(ctx, request()); err != nil || c.Ticket != 7 {
		t.Errorf("a Join of the second server: %v, %v", c, err)
	}
	return first.lives.Load(), first.calls.Load()
}

// A server that has much to do is not one that is silent: its answer comes.
func TestASlowServerKeepsItsCalls(t *testing.T) {
	asked := make(chan struct{}, 10)
	first := serve(t, map[string]http.HandlerFunc{
		"/livez": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable) // any answer is one
			asked <- struct{}{}
		},
		remote.PathJoin: func(w http.ResponseWriter, r *http.Request) {
			for range 2 {
				select {
				case <-asked:
				case <-r.Context().Done():
					return
				}
			}
			says(held)(w, r)
		},
	})
	second := serve(t, nil)
	e := of(t, first, second)
	e.livesWithin = 20 * time.Second // that the machine is late is no silence
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if c, err := e.Join(ctx, request()); err != nil || c.Ticket != 7 {
		t.Errorf("%v, %v", c, err)
	}
	if n := second.calls.Load(); n != 0 || e.at.Load().number != 0 {
		t.Errorf("the second server got %d calls, and the course is number %d", n, e.at.Load().number)
	}
}

// A Revoke that is cut short would leave its caller without an answer, and a second one finds
// no claim: it waits while other calls leave the server.
func TestARevocationIsNotCutShort(t *testing.T) {
	left := make(chan struct{})
	first := serve(t, map[string]http.HandlerFunc{remote.PathRevoke: func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-left:
			says(remote.Answer{})(w, r)
		case <-r.Context().Done():
		}
	}})
	e := of(t, first, serve(t, nil))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() {
		if err := e.Revoke(ctx, "a", 1, true); err != nil {
			t.Errorf("the Revoke: %v", err)
		}
	})
	for first.calls.Load() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if _, err := e.Join(ctx, request()); err == nil || ctx.Err() != nil {
		t.Errorf("a Join: %v", err)
	}
	close(left)
	all.Wait()
}

// Where there is no other server there is nothing to ask for.
func TestTheOnlyServerIsNotLeft(t *testing.T) {
	only := serve(t, nil)
	e := of(t, only)
	ctx, cancel := context.WithTimeout(t.Context(), 3*silentAfter/2)
	defer cancel()
	if _, err := e.Join(ctx, request()); err == nil || ctx.Err() == nil {
		t.Errorf("a Join: %v", err)
	}
	if n := only.lives.Load(); n != 0 {
		t.Errorf("it was asked %d times whether it lives", n)
	}
}

// A caller that had little time says nothing of a server that answers others.
func TestAServerIsNotLeftForACallerInHaste(t *testing.T) {
	late := make(chan struct{})
	first := serve(t, map[string]http.HandlerFunc{
		remote.PathQueue: says(remote.QueueAnswer{Name: "a"}),
		remote.PathJoin:  func(http.ResponseWriter, *http.Request) { <-late },
	})
	defer close(late)
	second := serve(t, nil)
	e := of(t, first, second)
	for range 3 {
		began := time.Now()
		if _, err := e.Queue(t.Context(), "a"); err != nil { // it answers
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := e.Join(ctx, request()); err == nil {
			t.Error("a Join that nobody answers succeeds")
		}
		cancel()
		if at := e.at.Load(); at.base != first.URL {
			if took := time.Since(began); took < silentAfter {
				t.Errorf("calls go to %s %v after %s has answered", at.base, took, first.URL)
			}
			return // this machine stood still for longer than a server may be silent
		}
	}
	// For a server that has been silent meanwhile it is not the caller's haste.
	e.at.Load().heard.Store(int64(-silentAfter))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := e.Join(ctx, request()); err == nil || e.at.Load().base != second.URL {
		t.Errorf("calls go to %s, and not to %s: %v", e.at.Load().base, second.URL, err)
	}
}
