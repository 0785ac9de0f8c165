package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/handle"
)

// FuzzRequest sends requests as they come over a wire: of a caller that may do everything, and
// of one that may do everything with names that begin with mine/. Whatever they say, the Server
// answers in JSON or as a stream, fails nowhere by itself, ends nobody's lock, has nothing under
// way afterwards, and shows the second caller nothing of others.
//
// In a request OWN, KEYED and OTHER stand for handles: of two locks of the caller, and of one
// whose ID no claim has.
func FuzzRequest(f *testing.F) {
	const id = "63a94cf42241bccca99ca3592fed3c44"
	for _, seed := range [][4]string{
		{"POST", "/v1/locks/mine/a", "Idempotency-Key: 0123456789abcdef", `{"ttl": "5s", "shared": true}`},
		{"POST", "/v1/locks/mine%2F..%2e", "Expect: 100-continue", `{"permits": 1, "of": 2, "label": "\u0000"}`},
		{"POST", "/v1/locks", "Transfer-Encoding: chunked", strings.Repeat("[", 100)},
		{"POST", "/v1/locks/mine/own", "", `{"wait": "1ms"}`},
		{"POST", "/v1/locks/mine/own", "Idempotency-Key: 0123456789abcdef", `{"wait": "1ms"}`},
		{"POST", "/v1/locks/victim", "", `{"wait": "1h", "name": "victim"}`},
		{"PUT", "/v1/locks/mine/own", "Authorization: Bearer OWN", `{"ttl": "1h"}`},
		{"PUT", "/v1/locks", "Authorization: Bearer leasehold1.eyJuIjoiYSJ9", ``},
		{"PUT", "/v1/locks", "Authorization: Bearer OTHER", ``},
		{"DELETE", "/v1/locks?name=mine/own", "Authorization: Bearer OWN", ``},
		{"DELETE", "/v1/locks/mine/keyed", "Authorization: Bearer KEYED", ``},
		{"DELETE", "/v1/locks/victim", "Authorization: Bearer OTHER", ``},
		{"GET", "/v1/queues?prefix=mine", "", ``},
		{"GET", "/v1/queues?name=mine/own", "", ``},
		{"GET", "/v1/queues/mine/own", "", ``},
		{"GET", "/v1/queues/victim", "", ``},
		{"GET", "/v1/queues/a/../b", "", ``},
		{"GET", "/v1/why/victim", "", ``},
		{"GET", "/v1/why?name=mine/own", "", ``},
		{"GET", "/v1/watch?prefix=", "", ``},
		{"POST", "/v1/revoke", "", `{"name": "mine/a", "ticket": "18446744073709551616"}`},
		{"POST", "/v1/revoke", "", `{"name": "mine/own", "ticket": "1", "now": true}`},
		{"POST", "/v1/engine/open", "", `{}`},
		{"POST", "/v1/engine/check", "", `{}`},
		{"POST", "/v1/engine/join", "", `{"client": "c", "name": "mine/a", "id": "` + id + `", "permits": 1, "limit": 1, "wait_ttl": 1000000000, "owner": {"label": "x"}}`},
		{"POST", "/v1/engine/join", "", `{"client": "c", "name": "mine/own", "id": "` + id + `", "permits": 1, "limit": 2147483647, "ttl": 1000000000, "wait_ttl": 1000000000, "replaces": "73a94cf42241bccca99ca3592fed3c44"}`},
		{"POST", "/v1/engine/renew", "", `{"client": "c", "items": [{"name": "mine/a", "id": "` + id + `", "want": 1000000000}, {"name": "victim", "id": "` + id + `", "want": -1}]}`},
		{"POST", "/v1/engine/leave", "", `{"client": "c", "items": [{"name": "mine/a", "id": "` + id + `"}, {"name": "victim", "id": ""}]}`},
		{"POST", "/v1/engine/queue", "", `{"name": "mine/own"}`},
		{"POST", "/v1/engine/queues", "", `{"name": "\ud800"}`},
		{"POST", "/v1/engine/queues", "", `{}`},
		{"POST", "/v1/engine/revoke", "", `{"name": "mine/own", "ticket": "7"}`},
		{"POST", "/v1/engine/watch", "", `{"client": "c"}`},
		{"LOCK", "/v1/tofu/mine/state?ttl=1h", "", `{"ID": "one", "Operation": "OperationTypeApply", "Who": "x"}`},
		{"LOCK", "/v1/tofu/mine/own", "", `{"ID": "one", "Operation": "OperationTypeApply", "Who": "x"}`},
		{"UNLOCK", "/v1/tofu?name=mine/own", "", `{"ID": "one"}`},
		{"DELETE", "/v1/tofu/victim", "", `{"ID": "one"}`},
		{"GET", "/livez", "", ``},
		{"GET", "/readyz", "", ``},
		{"GET", "/v1/openapi.json", "", ``},
		{"GET", "/metrics", "", ``},
		{"OPTIONS", "*", "", ``},
	} {
		for _, limited := range []bool{false, true} {
			f.Add(seed[0], seed[1], seed[2], seed[3], limited)
		}
	}
	both := store(f)
	open, err := New(both.Engine(), nil)
	if err != nil {
		f.Fatal(err)
	}
	token, line := NewToken()
	known, err := New(both.Engine(), &Options{Access: access(f, "me "+line+" lock,look,revoke mine/")})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { open.Close(); known.Close() })
	const secret = "what-others-do-not-see"
	claim := func(name string) engine.Request {
		return engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Hour}
	}
	victim, own, keyed, other := claim("victim"), claim("mine/own"), claim("mine/keyed"), claim("victim")
	victim.Owner.Label = secret
	join := func(t testing.TB, q engine.Request) engine.Claim {
		c, err := open.eng.Join(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	join(f, victim)
	f.Fuzz(func(t *testing.T, method, target, header, body string, limited bool) {
		for _, q := range []engine.Request{own, keyed} {
			text, err := handle.Body{Name: q.Name, ID: q.ID, Token: join(t, q).Ticket << engine.HandoffBits, Permits: q.Permits, Limit: q.Limit, TTL: time.Minute, Keyed: q.Name == keyed.Name}.Text()
			if err != nil {
				t.Fatal(err)
			}
			header = strings.ReplaceAll(header, map[bool]string{true: "KEYED", false: "OWN"}[q.Name == keyed.Name], text)
		}
		text, err := handle.Body{Name: other.Name, ID: other.ID, Permits: engine.Max, Limit: engine.Max, TTL: time.Minute}.Text()
		if err != nil {
			t.Fatal(err)
		}
		header = strings.ReplaceAll(header, "OTHER", text)
		s := open
		if limited {
			s = known
			if !strings.Contains(strings.ToLower(header), "authorization") {
				header += "\r\nAuthorization: Bearer " + token
			}
		}
		text = fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", method, target, len(body))
		if header = strings.TrimSpace(header); header != "" {
			text += header + "\r\n"
		}
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text + "\r\n" + body)))
		if err != nil {
			return // net/http answers it
		}
		r.RemoteAddr = "192.0.2.1:1"
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // a caller that waits goes
		defer cancel()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r.WithContext(ctx))
		switch {
		case w.Code >= 500 && w.Code != http.StatusServiceUnavailable && w.Code != http.StatusNotImplemented:
			t.Errorf("%d %s", w.Code, w.Body)
		case w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()):
			t.Errorf("no JSON: %q", w.Body)
		case limited && bytes.Contains(w.Body.Bytes(), []byte(secret)):
			t.Errorf("it shows who holds a name of others: %s", w.Body)
		}
		if n := s.counts.underWay.Load(); n != 0 {
			t.Errorf("%d requests are under way", n)
		}
		c, err := open.eng.Renew(context.Background(), []engine.Renewal{{Name: victim.Name, ID: victim.ID, Want: time.Hour}})
		if err != nil || c[0].State != engine.Held {
			t.Fatalf("another caller's lock: %v %v", c, err)
		}
		for q, err := range open.eng.Queues(context.Background(), "") { // what it made does not pile up
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range q.Claims {
				if c.Owner.Label != secret {
					open.eng.Revoke(context.Background(), q.Name, c.Ticket, true)
				}
			}
		}
	})
}

// FuzzAccess reads lists of callers. One that is accepted has callers with names, and none that
// every request without a token is.
func FuzzAccess(f *testing.F) {
	_, line := NewToken()
	for _, seed := range []string{"", "# x", "a " + line + " lock,look,revoke *", "a cert:x%20y lock p q\n\nb " + line + " look *", "a sha256: lock *", "a cert: lock *", "a " + line + " lock"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		known, err := parseAccess([]byte(text))
		if err != nil {
			return
		}
		names := map[string]bool{}
		for _, c := range known {
			if c.name == "" || names[c.name] || c.all || len(c.verbs) == 0 || len(c.prefixes) == 0 || (c.common == "") == (len(c.hash) != 32) {
				t.Errorf("%q: %+v", text, c)
			}
			names[c.name] = true
		}
	})
}
