package service

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

// FuzzRequest sends requests as they come over a wire. Whatever they say, the Server answers
// in JSON or as a stream, fails nowhere by itself, ends nobody's lock, and has nothing under
// way afterwards.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][4]string{
		{"POST", "/v1/locks/a", "Idempotency-Key: 0123456789abcdef", `{"ttl": "5s", "shared": true}`},
		{"POST", "/v1/locks/%2F..%2e", "Expect: 100-continue", `{"permits": 1, "of": 2, "label": "\u0000"}`},
		{"PUT", "/v1/locks/a", "Authorization: Bearer leasehold1.eyJuIjoiYSJ9", `{"ttl": "1h"}`},
		{"DELETE", "/v1/locks?name=a", "Authorization: Bearer leasehold1.x", ``},
		{"GET", "/v1/queues?prefix=a", "", ``},
		{"GET", "/v1/queues/a/../b", "", ``},
		{"GET", "/v1/why/victim", "", ``},
		{"GET", "/v1/watch", "", ``},
		{"POST", "/v1/revoke", "", `{"name": "a", "ticket": "18446744073709551616"}`},
		{"POST", "/v1/engine/join", "", `{"client": "c", "name": "a", "id": "63a94cf42241bccca99ca3592fed3c44", "permits": 1, "limit": 1, "wait_ttl": 1000000000, "owner": {"label": "x"}}`},
		{"POST", "/v1/engine/renew", "", `{"client": "c", "items": [{"name": "a", "id": "63a94cf42241bccca99ca3592fed3c44", "want": -1}]}`},
		{"POST", "/v1/engine/leave", "", `{"client": "c", "items": [{"name": "a", "id": ""}]}`},
		{"POST", "/v1/engine/queues", "", `{"name": "\ud800"}`},
		{"POST", "/v1/engine/watch", "", `{"client": "c"}`},
		{"OPTIONS", "*", "", ``},
		{"POST", "/v1/locks", "Transfer-Encoding: chunked", strings.Repeat("[", 100)},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	s, err := New(store(f).Engine(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	victim := engine.Request{Name: "victim", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Hour}
	if _, err := s.eng.Join(f.Context(), victim); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, target, header, body string) {
		text := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n\r\n%s", method, target, len(body), header, body)
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
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
		}
		if n := s.counts.underWay.Load(); n != 0 {
			t.Errorf("%d requests are under way", n)
		}
		c, err := s.eng.Renew(context.Background(), []engine.Renewal{{Name: victim.Name, ID: victim.ID, Want: time.Hour}})
		if err != nil || c[0].State != engine.Held {
			t.Fatalf("another caller's lock: %v %v", c, err)
		}
	})
}
