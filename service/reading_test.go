package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/httplock"
	"leasehold/internal/remote"
)

// A limit refuses no renewal: a lease that was obtained from another server is held.
func TestNoLimitEndsALeaseOfAnotherServer(t *testing.T) {
	both := store(t)
	_, first := plainly(t, both.Engine(), nil)
	_, second := plainly(t, both.Engine(), &Options{Limits: Limits{Claims: 1}})
	e, err := httplock.Open(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var rs []engine.Renewal
	for i := range 3 {
		q := engine.Request{Name: fmt.Sprint("n", i), ID: engine.NewID(), Permits: 1, Limit: 1, TTL: time.Minute, WaitTTL: time.Minute}
		if _, err := e.Join(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		rs = append(rs, engine.Renewal{Name: q.Name, ID: q.ID, Want: time.Minute})
	}
	other, err := httplock.Open(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	got, err := other.Renew(t.Context(), rs)
	if err != nil || len(got) != len(rs) {
		t.Errorf("%d of %d leases were renewed: %v", len(got), len(rs), err)
	}
	// They count there: a new claim is refused.
	if _, err := other.Join(t.Context(), engine.Request{Name: "more", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Minute}); err == nil {
		t.Error("a claim beyond the limit was accepted")
	}
}

// A claim that takes the place of another of its name is no more than there was. What ends no
// claim gives nothing back: a name that the claim does not have, and an ID that has another.
func TestTheLimitCountsClaimsAsTheyEnd(t *testing.T) {
	s, base := plainly(t, store(t).Engine(), &Options{Limits: Limits{Claims: 1}})
	e := client(t, base)
	defer e.Close()
	ids := [5]engine.ID{}
	for i := range ids {
		ids[i] = engine.NewID()
	}
	join := func(name string, id, replaces engine.ID) error {
		_, err := e.Join(t.Context(), engine.Request{Name: name, ID: id, Replaces: replaces, Permits: 1, Limit: 1, WaitTTL: time.Minute})
		return err
	}
	for _, step := range []struct {
		what    string
		do      func() error
		refused bool
	}{
		{"the first", func() error { return join("n", ids[0], engine.ID{}) }, false},
		{"a second", func() error { return join("m", ids[1], engine.ID{}) }, true},
		{"a hand-over", func() error { return join("n", ids[2], ids[0]) }, false},
		{"the next hand-over", func() error { return join("n", ids[3], ids[2]) }, false},
		{"one in place of a claim that is over", func() error { return join("n", ids[4], ids[0]) }, true},
		{"one in place of a claim of another name", func() error { return join("m", ids[1], ids[3]) }, true},
		{"after a Renew of another name", func() error {
			if got, err := e.Renew(t.Context(), []engine.Renewal{{Name: "m", ID: ids[3], Want: time.Minute}}); err != nil || got[0].State != engine.Gone {
				return fmt.Errorf("renewed: %v, %w", got, err)
			}
			return join("m", ids[1], engine.ID{})
		}, true},
		{"after a Leave of another name", func() error {
			if _, err := e.Leave(t.Context(), []engine.Claim{{Name: "m", ID: ids[3]}}); err != nil {
				return err
			}
			return join("m", ids[1], engine.ID{})
		}, true},
		{"the same ID for another name", func() error { return join("m", ids[3], engine.ID{}) }, true},
		{"after its Leave", func() error {
			if _, err := e.Leave(t.Context(), []engine.Claim{{Name: "n", ID: ids[3]}}); err != nil {
				return err
			}
			return join("m", ids[1], engine.ID{})
		}, false},
	} {
		err := step.do()
		if (err != nil) != step.refused || err != nil && !strings.Contains(err.Error(), "1 claims here, which is its limit") {
			t.Errorf("%s: refused %v, want %v (%v)", step.what, err != nil, step.refused, err)
		}
		if n := s.Stats().Claims; n != 1 {
			t.Errorf("%s: %d claims are known, want 1", step.what, n)
		}
	}
}

// unanswered is an engine whose Joins are carried out, and not answered, if they replace a claim.
type unanswered struct{ engine.Engine }

func (u unanswered) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	c, err := u.Engine.Join(ctx, r)
	if err == nil && r.Replaces != (engine.ID{}) {
		return engine.Claim{}, errors.New("the answer is lost")
	}
	return c, err
}

// Of a hand-over that is not answered both claims may be there. Who asks for one after the
// other gets no more than twice the limit.
func TestHandOversHaveALimitToo(t *testing.T) {
	_, base := plainly(t, unanswered{store(t).Engine()}, &Options{Limits: Limits{Claims: 2}})
	e := client(t, base)
	defer e.Close()
	first := engine.NewID()
	if _, err := e.Join(t.Context(), engine.Request{Name: "n", ID: first, Permits: 1, Limit: 1, WaitTTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		_, err := e.Join(t.Context(), engine.Request{Name: "n", ID: engine.NewID(), Replaces: first, Permits: 1, Limit: 1, WaitTTL: time.Minute})
		if refused := errors.Is(err, engine.ErrRefused); err == nil || refused != (i >= 3) {
			t.Errorf("hand-over %d: %v", i, err)
		}
	}
}

// crowded is an engine with very many names before the last one.
type crowded struct {
	engine.Engine
	names int
}

func (c *crowded) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		for i := range c.names {
			if !yield(engine.Queue{Name: fmt.Sprintf("crowd/%06d", i), Limit: 1}, nil) {
				return
			}
		}
		for q, err := range c.Engine.Queues(ctx, prefix) {
			if !yield(q, err) {
				return
			}
		}
	}
}

// What is not read is not said to be free: why and watch read very many names, and say so if
// there are more.
func TestNamesThatAreNotReadAreNotSaidToBeFree(t *testing.T) {
	for names, right := range map[int]bool{maxQueues + 1: true, maxRead + 1: false} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			_, base := plainly(t, &crowded{store(t).Engine(), names}, nil)
			send(t, "POST", base+"/v1/locks/z", `{}`).mustBe(t, 200)
			why := send(t, "GET", base+"/v1/why/z", "")
			if right && (why.status != 200 || !strings.Contains(why.text, "is held by")) || !right && why.status != 501 {
				t.Errorf("why: %d %s", why.status, why.text)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // bounds what hangs, and measures nothing
			defer cancel()
			want := map[bool]string{true: `"name":"z"`, false: "event: failure"}[right]
			if err := streams(ctx, base+"/v1/watch", want); err != nil {
				t.Errorf("watch: %v", err)
			}
		})
	}
}

// streams reads an answer until it has some text.
func streams(ctx context.Context, url, want string) error {
	q, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	seen, last := 0, "" // what may be the beginning of it
	buffer := make([]byte, 64<<10)
	for !strings.Contains(last, want) {
		n, err := a.Body.Read(buffer)
		seen += n
		last = last[max(0, len(last)-len(want)):] + string(buffer[:n])
		if err != nil {
			return fmt.Errorf("no %s in %d bytes: %w", want, seen, err)
		}
	}
	return nil
}

// mustBe requires a status.
func (r reply) mustBe(t testing.TB, status int) {
	t.Helper()
	if r.status != status {
		t.Fatalf("%d %s, want %d", r.status, r.text, status)
	}
}

// A page of another origin, in a browser on the same machine, can do nothing. Nor can one
// whose name was made to mean this machine.
func TestPagesOfOthersAreRefused(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	for _, headers := range [][]string{
		{"Origin", "https://evil.example", "Content-Type", "text/plain"},
		{"Sec-Fetch-Site", "cross-site"},
	} {
		for _, path := range []string{"/v1/locks/a", "/v1/revoke", remote.PathJoin} {
			if r := send(t, "POST", base+path, `{}`, headers...); r.status != 403 {
				t.Errorf("%v %s: %d %s", headers, path, r.status, r.text)
			}
		}
	}
	send(t, "POST", base+"/v1/locks/a", `{}`).mustBe(t, 200)
}

// What a server reads of names is what it is asked for, at most a batch.
func TestABatchBeyondItsBoundIsRefused(t *testing.T) {
	s, base := plainly(t, store(t).Engine(), nil)
	call := remote.RenewCall{Client: "c"}
	for range remote.MaxBatch + 1 {
		call.Items = append(call.Items, remote.Renewal{Name: "a", ID: engine.NewID().Secret(), Want: time.Minute})
	}
	if r := send(t, "POST", base+remote.PathRenew, mustJSON(t, call)); r.status != 400 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if n := s.Stats().Claims; n != 0 {
		t.Errorf("%d claims are known of a call that was refused", n)
	}
}

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A name that somebody has made mean this machine is not one of its own (DNS rebinding).
func TestANameOfOthersIsNotThisMachine(t *testing.T) {
	at, _ := run(t, server(t, nil), "127.0.0.1:0", RunOptions{})
	open, _ := run(t, server(t, nil), "127.0.0.1:0", RunOptions{Insecure: true})
	for host, status := range map[string]int{at.String(): 200, "localhost:7420": 200, "evil.example:7420": 403} {
		if got := withHost(t, at.String(), host); got != status {
			t.Errorf("Host %s: %d, want %d", host, got, status)
		}
	}
	if got := withHost(t, open.String(), "locks.internal"); got != 200 {
		t.Errorf("a server that everybody may reach: %d", got)
	}
}

func withHost(t testing.TB, addr, host string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/v1/queues", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = host
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}

// Notifications come from where the calls go: after one server has failed a call, they are
// subscribed to at the other.
func TestNotificationsFollowTheCalls(t *testing.T) {
	t.Parallel()
	both := store(t)
	s, err := New(both.Engine(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var failing atomic.Bool
	first := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() && r.URL.Path == remote.PathJoin {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		s.ServeHTTP(w, r)
	}))
	first.Config.Protocols = new(http.Protocols)
	first.Config.Protocols.SetHTTP1(true)
	first.Config.Protocols.SetUnencryptedHTTP2(true)
	first.Start()
	defer func() {
		s.Drain()
		first.CloseClientConnections()
		first.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	other, second := plainly(t, both.Engine(), nil)
	e, err := httplock.Open(t.Context(), first.URL+","+strings.TrimPrefix(second, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		for ctx.Err() == nil { // as the core does
			e.Watch(ctx, func(engine.Claim) {})
		}
	}()
	until(t, "nothing is subscribed to", func() bool { return s.Stats().Watches == 1 })
	failing.Store(true)
	q := engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: 1, NoWait: true, WaitTTL: time.Second}
	if _, err := e.Join(t.Context(), q); err == nil {
		t.Fatal("a call that failed is answered")
	}
	until(t, "the calls go to the other server, and the notifications come from the first", func() bool {
		return other.Stats().Watches == 1 && s.Stats().Watches == 0
	})
}

// The right to lock a name is enough to be told who holds it.
func TestWhyNeedsTheRightToLock(t *testing.T) {
	token, line := NewToken()
	_, base := plainly(t, store(t).Engine(), &Options{Access: access(t, "locker "+line+" lock *")})
	auth := []string{"Authorization", "Bearer " + token}
	send(t, "POST", base+"/v1/locks/z", `{}`, auth...).mustBe(t, 200)
	if r := send(t, "GET", base+"/v1/why/z", "", auth...); r.status != 200 || !strings.Contains(r.text, "is held by") {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// A file that cannot be read any more is told of once, and when that is over.
func TestFilesThatCannotBeReadAreToldOf(t *testing.T) {
	var log strings.Builder
	var trouble trouble
	to := slog.New(slog.NewTextHandler(&log, nil))
	for _, err := range []error{nil, io.EOF, io.EOF, io.ErrUnexpectedEOF, nil, nil} {
		trouble.note(to, "the list", err)
	}
	if got := strings.Count(log.String(), "level=WARN"); got != 2 || strings.Count(log.String(), "\n") != 3 {
		t.Errorf("two errors and their end were told as\n%s", log.String())
	}

	token, line := NewToken()
	a := access(t, "one "+line+" lock *")
	var lines bytes.Buffer
	var mu sync.Mutex
	_, base := plainly(t, store(t).Engine(), &Options{Access: a, Log: slog.New(slog.NewTextHandler(lockedWriter{&mu, &lines}, nil))})
	if err := os.WriteFile(a.file, []byte("half a line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "nobody is told that the list is wrong", func() bool {
		send(t, "GET", base+"/livez", "", "Authorization", "Bearer "+token)
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(lines.String(), "the list of callers cannot be read")
	})
}
