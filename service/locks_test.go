package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/fence"
	"leasehold/internal/boottime"
)

// plainly starts a Server without TLS, as people with curl meet it.
func plainly(t testing.TB, eng engine.Engine, o *Options) (s *Server, base string) {
	t.Helper()
	s, err := New(eng, o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewUnstartedServer(described(t, s))
	h.Config.Protocols = new(http.Protocols)
	h.Config.Protocols.SetHTTP1(true)
	h.Config.Protocols.SetUnencryptedHTTP2(true)
	h.Start()
	t.Cleanup(func() {
		s.Drain()
		h.CloseClientConnections()
		h.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, h.URL
}

// reply is what came back.
type reply struct {
	status int
	header http.Header
	text   string

	Name, State, Handle, Reason, Error, Text string
	Token                                    string
	Trusted                                  float64 `json:"trusted_seconds"`
	TTL                                      float64 `json:"ttl_seconds"`
	Contended, Cycle                         bool
	Ahead                                    *int
	Holders                                  []any
	Queues                                   []struct {
		Name   string
		Claims []any
	}
	Claims []struct{ Ticket, State string }
}

// send makes a request. headers are names and values in turn.
func send(t testing.TB, method, url, body string, headers ...string) (r reply) {
	t.Helper()
	r, err := try(t.Context(), method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func try(ctx context.Context, method, url, body string, headers ...string) (r reply, err error) {
	q, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return r, err
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			q.Host = headers[i+1]
		}
	}
	a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		return r, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return r, err
	}
	r.status, r.header, r.text = a.StatusCode, a.Header, string(text)
	text = bytes.ReplaceAll(text, []byte(`"holders":null`), nil)
	json.Unmarshal(text, &r) // an answer that is no JSON has no fields
	return r, nil
}

func (r *reply) want(t testing.TB, status int, state string) {
	t.Helper()
	if r.status != status || r.State != state {
		t.Fatalf("%d %s, want %d and the state %q", r.status, r.text, status, state)
	}
}

func bearer(r reply) []string { return []string{"Authorization", "Bearer " + r.Handle} }

func keyed(key string) []string { return []string{"Idempotency-Key", key + "-0123456789abcdef"} }

func store(t testing.TB) *memlock.Store { return memlock.NewStore(nil) }

func TestALockIsObtainedKeptAndGivenBack(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	url := base + "/v1/locks/deploy"
	began := time.Now()
	held := send(t, "POST", url, `{"ttl": "1m", "label": "nightly"}`)
	took := time.Since(began).Seconds() // it may have been granted at the end of that
	held.want(t, 200, "held")
	if held.Trusted <= 58 || held.Trusted >= 59.5+took || held.TTL != 60 {
		t.Errorf("it may be trusted for %v s of %v", held.Trusted, held.TTL)
	}
	if len(held.Token) < 10 || !strings.Contains(held.text, fmt.Sprintf(`"token":"%s"`, held.Token)) {
		t.Errorf("the token is no decimal string: %s", held.text)
	}
	busy := send(t, "POST", url, `{}`)
	busy.want(t, 409, "busy")
	if len(busy.Holders) != 1 || !strings.Contains(busy.text, "nightly") || strings.Contains(busy.text, held.Handle) {
		t.Errorf("who holds it: %s", busy.text)
	}
	kept := send(t, "PUT", url, `{"ttl": "2m"}`, bearer(held)...)
	kept.want(t, 200, "held")
	if kept.Token != held.Token || kept.TTL != 120 || kept.Trusted <= 118 {
		t.Errorf("kept: %s", kept.text)
	}
	given := send(t, "DELETE", url, ``, bearer(held)...)
	given.want(t, 200, "released")
	again := send(t, "POST", url, ``)
	again.want(t, 200, "held")
	if again.Token <= held.Token {
		t.Errorf("the token %s does not rise above %s", again.Token, held.Token)
	}
	for _, method := range []string{"PUT", "DELETE"} {
		lost := send(t, method, url, ``, bearer(held)...)
		if lost.want(t, 410, "lost"); lost.Reason != "ended" {
			t.Errorf("%s: %s", method, lost.text)
		}
	}
}

func TestSharedAndPermits(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	for range 2 {
		r := send(t, "POST", base+"/v1/locks/catalogue", `{"shared": true}`)
		r.want(t, 200, "held")
		p := send(t, "POST", base+"/v1/locks/mail", `{"permits": 2, "of": 4}`)
		p.want(t, 200, "held")
	}
	writer := send(t, "POST", base+"/v1/locks/catalogue", `{}`)
	writer.want(t, 409, "busy")
	third := send(t, "POST", base+"/v1/locks/mail", `{"permits": 1, "of": 4}`)
	third.want(t, 409, "busy")
	if other := send(t, "POST", base+"/v1/locks/mail", `{"permits": 1, "of": 5}`); other.status != 409 || !strings.Contains(other.Error, "limit") {
		t.Errorf("another limit: %s", other.text)
	}
}

// unfenced is an engine whose tokens need not rise.
type unfenced struct{ engine.Engine }

func (u unfenced) Guarantees() engine.Guarantees {
	g := u.Engine.Guarantees()
	g.Fencing = engine.FencingNone
	return g
}

// What a resource takes is what the answer has: it never takes readers, or permits, for
// writers that come one after the other.
func TestTheTokenIsThePassOfTheLock(t *testing.T) {
	_, fenced := plainly(t, store(t).Engine(), nil)
	_, without := plainly(t, unfenced{store(t).Engine()}, nil)
	for _, c := range []struct {
		what, base, body string
		mode             engine.Modes // 0: there is no pass
	}{
		{"exclusive", fenced, `{}`, engine.Exclusive},
		{"shared", fenced, `{"shared": true}`, engine.Shared},
		{"permits", fenced, `{"permits": 1, "of": 3}`, 0},
		{"all permits", fenced, `{"permits": 3, "of": 3}`, engine.Exclusive},
		{"an engine without fencing", without, `{}`, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			url := c.base + "/v1/locks/" + strings.ReplaceAll(c.what, " ", "-")
			held := send(t, "POST", url, c.body)
			held.want(t, 200, "held")
			kept := send(t, "PUT", url, ``, bearer(held)...)
			kept.want(t, 200, "held")
			if held.Token != kept.Token {
				t.Errorf("obtained with the token %q, and kept with %q", held.Token, kept.Token)
			}
			if pass, err := fence.Parse("x", held.Token); pass.Mode != c.mode || (err == nil) != (c.mode != 0) {
				t.Errorf("the token %q is taken as %v (%v), want %v", held.Token, pass.Mode, err, c.mode)
			}
			if c.mode == 0 && held.Token != "" {
				t.Errorf("the token is %q, and no resource can judge it", held.Token)
			}
		})
	}
}

// A request that waits is answered when the name is free, and its time counts from its
// begin: the trust of a lock that took a while is longer than its TTL.
func TestAWaitEndsWithTheLock(t *testing.T) {
	t.Parallel()
	_, base := plainly(t, store(t).Engine(), nil)
	url := base + "/v1/locks/a"
	first := send(t, "POST", url, `{}`)
	first.want(t, 200, "held")
	const waiters = 5
	granted := make(chan reply, waiters)
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() {
			r, err := try(t.Context(), "POST", url, `{"wait": "20s", "ttl": "15s"}`, keyed(fmt.Sprint("w", i))...)
			if err != nil {
				t.Error(err)
			}
			granted <- r
		})
		until(t, "it is not in the queue", func() bool { return len(send(t, "GET", base+"/v1/queues/a", "").Claims) == i+2 })
	}
	last := first
	for range waiters {
		released := send(t, "DELETE", url, ``, bearer(last)...)
		released.want(t, 200, "released")
		r := <-granted
		r.want(t, 200, "held")
		if r.Token <= last.Token || r.TTL != 15 || r.Trusted < 14 {
			t.Errorf("after %s: %s", last.Token, r.text)
		}
		last = r
	}
	all.Wait()
}

func until(t testing.TB, why string, ok func() bool) {
	t.Helper()
	for end := boottime.Now() + 20*time.Second; !ok(); time.Sleep(5 * time.Millisecond) {
		if boottime.Now() > end {
			t.Fatal(why)
		}
	}
}

// The same request with the same key is the same claim, on every Server of the service.
func TestAKeyFindsItsClaimOnEveryServer(t *testing.T) {
	st := store(t)
	one, first := plainly(t, st.Engine(), nil)
	_, second := plainly(t, st.Engine(), nil)
	held := send(t, "POST", first+"/v1/locks/a", `{}`, keyed("holder")...)
	held.want(t, 200, "held")
	again := send(t, "POST", second+"/v1/locks/a", `{}`, keyed("holder")...)
	if again.want(t, 200, "held"); again.Token != held.Token || again.Handle != held.Handle {
		t.Errorf("the same key has %s, and had %s", again.text, held.text)
	}

	// Two wait, and their Server ends. Each has its slice's end at once, and goes to the
	// other Server, in the wrong order. The places stay.
	slices := make(chan reply, 2)
	var all sync.WaitGroup
	for i, key := range []string{"early", "late"} {
		all.Go(func() {
			r, err := try(t.Context(), "POST", first+"/v1/locks/a", `{"wait": "25s"}`, keyed(key)...)
			if err != nil {
				t.Error(err)
			}
			slices <- r
		})
		until(t, "it is not in the queue", func() bool { return len(send(t, "GET", second+"/v1/queues/a", "").Claims) == i+2 })
	}
	one.Drain()
	for range 2 {
		r := <-slices
		r.want(t, 202, "waiting")
		if r.Ahead == nil || *r.Ahead < 1 || r.header.Get("Retry-After") == "" || len(r.Holders) != 1 {
			t.Errorf("the end of a slice: %s", r.text)
		}
	}
	type named struct {
		key string
		reply
	}
	granted := make(chan named, 2)
	for _, key := range []string{"late", "early"} {
		all.Go(func() {
			r, err := try(t.Context(), "POST", second+"/v1/locks/a", `{"wait": "25s"}`, keyed(key)...)
			if err != nil {
				t.Error(err)
			}
			granted <- named{key, r}
		})
	}
	released := send(t, "DELETE", second+"/v1/locks/a", ``, bearer(held)...)
	released.want(t, 200, "released")
	early := <-granted
	if early.want(t, 200, "held"); early.key != "early" {
		t.Errorf("%s came first", early.key)
	}
	released = send(t, "DELETE", second+"/v1/locks/a", ``, bearer(early.reply)...)
	released.want(t, 200, "released")
	late := <-granted
	late.want(t, 200, "held")
	all.Wait()
}

// A caller that goes gives its place up at once, unless it can come again for it.
func TestACallerThatGoesGivesItsPlaceUp(t *testing.T) {
	t.Parallel()
	_, base := plainly(t, store(t).Engine(), nil)
	url := base + "/v1/locks/a"
	held := send(t, "POST", url, `{}`)
	held.want(t, 200, "held")
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, headers := range [][]string{nil, keyed("comes again")} {
		all.Go(func() { try(ctx, "POST", url, `{"wait": "20s"}`, headers...) })
	}
	claims := func() int { return len(send(t, "GET", base+"/v1/queues/a", "").Claims) }
	until(t, "they are not in the queue", func() bool { return claims() == 3 })
	cancel()
	all.Wait()
	until(t, "the place of who cannot come again stays", func() bool { return claims() == 2 })
	released := send(t, "DELETE", url, ``, bearer(held)...)
	released.want(t, 200, "released")
	again := send(t, "POST", url, `{"wait": "20s"}`, keyed("comes again")...)
	again.want(t, 200, "held")
}

func TestRevokedIsSaid(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	url := base + "/v1/locks/a"
	held := send(t, "POST", url, `{}`)
	ticket := send(t, "GET", base+"/v1/queues/a", "").Claims[0].Ticket
	if r := send(t, "POST", base+"/v1/revoke", fmt.Sprintf(`{"name": "a", "ticket": %q}`, ticket)); r.status != 200 {
		t.Fatalf("revoke: %s", r.text)
	}
	lost := send(t, "PUT", url, ``, bearer(held)...)
	if lost.want(t, 410, "lost"); lost.Reason != "revoked" {
		t.Errorf("why it is lost: %s", lost.text)
	}
	// Giving it back frees the name, with a key too.
	for _, headers := range [][]string{nil, keyed("of a holder that is revoked")} {
		send(t, "DELETE", url, ``, bearer(held)...)
		held = send(t, "POST", url, `{}`, headers...)
		held.want(t, 200, "held")
		ticket = send(t, "GET", base+"/v1/queues/a", "").Claims[0].Ticket
		send(t, "POST", base+"/v1/revoke", fmt.Sprintf(`{"name": "a", "ticket": %q}`, ticket))
		gone := send(t, "DELETE", url, ``, bearer(held)...)
		if gone.want(t, 410, "lost"); gone.Reason != "revoked" {
			t.Errorf("why it is lost: %s", gone.text)
		}
		if left := send(t, "GET", base+"/v1/queues/a", "").Claims; len(left) != 0 {
			t.Errorf("a revoked hold that was given back stays: %v", left)
		}
	}
	if r := send(t, "POST", base+"/v1/revoke", `{"name": "a", "ticket": "5"}`); r.status != 404 {
		t.Errorf("revoking nobody: %d %s", r.status, r.text)
	}
}

// A handle is worth its own claim, in the form in which it was given out.
func TestWhatIsNoHandleIsRefused(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	held := send(t, "POST", base+"/v1/locks/a", `{}`)
	held.want(t, 200, "held")
	for what, c := range map[string]struct {
		path, handle string
		status       int
	}{
		"none":              {"/v1/locks/a", "", 401},
		"another word":      {"/v1/locks/a", "Bearer hello", 401},
		"half of it":        {"/v1/locks/a", "Bearer " + held.Handle[:len(held.Handle)/2], 401},
		"another scheme":    {"/v1/locks/a", "Basic " + held.Handle, 401},
		"of another name":   {"/v1/locks/b", "Bearer " + held.Handle, 400},
		"without a name":    {"/v1/locks", "Bearer " + held.Handle, 200},
		"in small letters":  {"/v1/locks/a", "bearer " + held.Handle, 200},
		"of the name again": {"/v1/locks/a", "Bearer " + held.Handle, 200},
	} {
		r := send(t, "PUT", base+c.path, ``, "Authorization", c.handle)
		if r.status != c.status {
			t.Errorf("%s: %d %s, want %d", what, r.status, r.text, c.status)
		}
	}
}

func TestBadRequestsAreRefusedInWords(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	for what, c := range map[string]struct {
		method, path, body string
		headers            []string
		status             int
		says               string
	}{
		"an unknown field":        {"POST", "/v1/locks/a", `{"tll": "5m"}`, nil, 400, "tll"},
		"a number for a duration": {"POST", "/v1/locks/a", `{"ttl": 5}`, nil, 400, "ttl"},
		"a duration without unit": {"POST", "/v1/locks/a", `{"ttl": "5"}`, nil, 400, "30s"},
		"a TTL that is too short": {"POST", "/v1/locks/a", `{"ttl": "1ms"}`, nil, 400, "outside"},
		"a TTL that is too long":  {"POST", "/v1/locks/a", `{"ttl": "48h"}`, nil, 400, "outside"},
		"a negative wait":         {"POST", "/v1/locks/a", `{"wait": "-1s"}`, nil, 400, "leave it out"},
		"permits above the limit": {"POST", "/v1/locks/a", `{"permits": 3, "of": 2}`, nil, 400, "permits"},
		"both kinds":              {"POST", "/v1/locks/a", `{"permits": 3, "of": 4, "shared": true}`, nil, 400, "choose one"},
		"two names":               {"POST", "/v1/locks/a", `{"name": "b"}`, nil, 400, "different names"},
		"no name":                 {"POST", "/v1/locks", `{}`, nil, 400, "empty"},
		"a name with a NUL":       {"POST", "/v1/locks/a%00b", `{}`, nil, 400, "NUL"},
		"a name of 513 bytes":     {"POST", "/v1/locks/" + strings.Repeat("x", 513), `{}`, nil, 400, "513 bytes"},
		"a name that is no UTF-8": {"POST", "/v1/locks/%ff", `{}`, nil, 400, "UTF-8"},
		"dots in the path":        {"POST", "/v1/locks/a/../b", `{}`, nil, 400, "%2F"},
		"an empty segment":        {"POST", "/v1/locks/a//b", `{}`, nil, 400, "%2F"},
		"two values":              {"POST", "/v1/locks/a", `{} {}`, nil, 400, "follows"},
		"a large body":            {"POST", "/v1/locks/a", `{"label": "` + strings.Repeat("x", maxBody) + `"}`, nil, 413, "send less"},
		"a long label":            {"POST", "/v1/locks/a", `{"label": "` + strings.Repeat("x", 2000) + `"}`, nil, 400, "owner"},
		"a short key":             {"POST", "/v1/locks/a", `{}`, []string{"Idempotency-Key", "1"}, 400, "at random"},
		"an unknown method":       {"PATCH", "/v1/locks/a", `{}`, nil, 405, ""},
		"an unknown path":         {"GET", "/v2/locks", ``, nil, 404, ""},
		"a ticket that is none":   {"POST", "/v1/revoke", `{"name": "a", "ticket": "x"}`, nil, 400, "ticket"},
	} {
		r := send(t, c.method, base+c.path, c.body, c.headers...)
		if r.status != c.status || !strings.Contains(r.Error, c.says) {
			t.Errorf("%s: %d %s, want %d that says %q", what, r.status, r.text, c.status, c.says)
		}
	}
	if r := send(t, "GET", base+"/v1/queues", ""); len(r.Queues) != 0 {
		t.Errorf("something was locked: %s", r.text)
	}
}

// Names that look like paths are names.
func TestEveryNameCanBeLocked(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	names := map[string]string{ // by path
		"/v1/locks/stock/42":           "stock/42",
		"/v1/locks/a%2F..%2Fb":         "a/../b",
		"/v1/locks/%2E%2E":             "..",
		"/v1/locks/%252F":              "%2F",
		"/v1/locks/b%20c":              "b c",
		"/v1/locks/caf%C3%A9%E2%82%AC": "café€",
		"/v1/locks/a%3Fb%23c":          "a?b#c",
		"/v1/locks/tail%2F":            "tail/",
	}
	for path, name := range names {
		r := send(t, "POST", base+path, `{}`)
		if r.want(t, 200, "held"); r.Name != name {
			t.Errorf("%s locked %q, want %q", path, r.Name, name)
		}
		if r := send(t, "PUT", base+path, ``, bearer(r)...); r.status != 200 {
			t.Errorf("%s is not kept: %s", path, r.text)
		}
	}
	if r := send(t, "GET", base+"/v1/queues", ""); len(r.Queues) != len(names) {
		t.Errorf("%d names are locked, want %d: %s", len(r.Queues), len(names), r.text)
	}
	odd := send(t, "POST", base+"/v1/locks", `{"name": "../x/./y//z"}`)
	odd.want(t, 200, "held")
	if r := send(t, "GET", base+"/v1/queues?name=../x/./y//z", ""); len(r.Queues) != 1 || len(r.Queues[0].Claims) != 1 {
		t.Errorf("its queue: %s", r.text)
	}
	if r := send(t, "DELETE", base+"/v1/locks", ``, bearer(odd)...); r.status != 200 {
		t.Errorf("it is not given back: %s", r.text)
	}
}
