package service

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// deadlines is an answer that remembers whether its request had a deadline while it was answered.
type deadlines struct {
	http.ResponseWriter
	set, answered bool
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = !at.IsZero()
	return nil
}

func (d *deadlines) WriteHeader(status int) {
	d.answered = d.set
	d.ResponseWriter.WriteHeader(status)
}

// A request that waits for a lock has no deadline any more once its body has come: it would end
// the wait. After the answer it has one again.
func TestABodyThatCameLeavesNoDeadline(t *testing.T) {
	s := server(t, nil)
	defer s.Close()
	for path, body := range map[string]string{"/v1/locks/a": `{"wait": "1m"}`, "/v1/engine/queue": `{"name": "a"}`} {
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.Host = "localhost"
		w := &deadlines{ResponseWriter: httptest.NewRecorder()}
		if s.ServeHTTP(w, r); w.answered || !w.set {
			t.Errorf("%s: a deadline while it is answered: %v; for what is left of the body: %v", path, w.answered, w.set)
		}
	}
}

// fails is an engine whose first Join is not answered.
type fails struct {
	engine.Engine
	joins atomic.Int32
}

func (f *fails) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if f.joins.Add(1) == 1 {
		return engine.Claim{}, errors.New("away for a moment")
	}
	return f.Engine.Join(ctx, r)
}

// An engine that is away when a wait begins costs time, and the lock is obtained.
func TestAWaitOutlivesAnEngineThatIsAway(t *testing.T) {
	t.Parallel()
	_, base := plainly(t, &fails{Engine: store(t).Engine()}, nil)
	r := send(t, "POST", base+"/v1/locks/a", `{"wait": "20s"}`)
	r.want(t, 200, "held")
}

// A subscription that begins anew may have missed anything: all that wait look.
func TestEveryWaiterLooksAfterABreak(t *testing.T) {
	t.Parallel()
	h := newHub(boottime.Now)
	w := &waiter{at: place{"a", engine.NewID()}, woken: make(chan struct{}, 1)}
	defer h.wait(w)()
	box, stop := h.open("client")
	defer stop()
	h.changed(engine.Claim{})
	if len(w.woken) != 1 {
		t.Error("a request that waits does not look")
	}
	ctx, cancel := context.WithCancel(t.Context())
	box.Deliver(ctx, nil, func(engine.Claim) { cancel() })
	if ctx.Err() == nil {
		t.Error("a client of httplock does not look")
	}
}

// What is counted of callers is forgotten with the last of their requests.
func TestACallerThatTakesNothingIsForgotten(t *testing.T) {
	t.Parallel()
	s, base := plainly(t, store(t).Engine(), nil)
	held := send(t, "POST", base+"/v1/locks/a", `{"wait": "1s"}`)
	held.want(t, 200, "held")
	until(t, "a caller is known that takes nothing", func() bool {
		s.usage.mu.Lock()
		defer s.usage.mu.Unlock()
		return len(s.usage.by) == 0
	})
}

// asked is an engine that remembers what it was asked for.
type asked struct {
	engine.Engine
	detached, others atomic.Int32
}

func (a *asked) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if r.Detached {
		a.detached.Add(1)
	} else {
		a.others.Add(1)
	}
	return a.Engine.Join(ctx, r)
}

// No claim ends with the server that made it, whichever way it was asked for.
func TestEveryClaimOutlivesTheServer(t *testing.T) {
	a := &asked{Engine: store(t).Engine()}
	_, base := plainly(t, a, nil)
	e := client(t, base)
	defer e.Close()
	if _, err := e.Join(t.Context(), engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	held := send(t, "POST", base+"/v1/locks/b", `{}`)
	held.want(t, 200, "held")
	locked := send(t, "POST", base+"/v1/tofu/c", `{"ID": "one"}`)
	locked.mustBe(t, 200)
	if n, others := a.detached.Load(), a.others.Load(); n != 3 || others != 0 {
		t.Errorf("%d claims outlive their server, and %d do not", n, others)
	}
}
