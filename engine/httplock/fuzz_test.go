package httplock

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

// answers is a server that gives every call the same answer.
type answers struct {
	status int
	body   string
}

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(strings.NewReader(a.body)), Request: r, Header: http.Header{}}, nil
}

// FuzzAnswer reads answers of what is perhaps not a service. An answer that is none is an error,
// and a status other than 200 grants nothing.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{
		"", "{}", "null", `{"claim": {"name": "a", "id": "63a94cf42241bccca99ca3592fed3c44", "ticket": "7", "state": 1, "ttl": 1000000000}}`,
		`{"claims": [{"state": 2}, null], "problem": {"kind": "limit", "have": 1}}`, `{"problem": {"kind": "refused", "text": "x"}}`,
		`{"name": "a", "claims": [{}]}` + "\n" + `{"end": true}`, `{"claim": null}` + "\n\n{", `{"error": "x"}`, `{"version": 1, "guarantees": {}}`, "<html>",
	} {
		f.Add(200, body)
		f.Add(403, body)
		f.Add(502, body)
	}
	q := engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Minute}
	f.Fuzz(func(t *testing.T, status int, body string) {
		e, err := newEngine("http://localhost:1,localhost:2")
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		for _, c := range []*http.Client{e.brief, e.shared, e.probe} {
			c.Transport = answers{status, body}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := e.Join(ctx, q)
		if status != 200 && (err == nil || c.State == engine.Held) {
			t.Errorf("status %d grants %v", status, c)
		}
		if got, err := e.Renew(ctx, []engine.Renewal{{Name: q.Name, ID: q.ID, Want: time.Minute}}); status != 200 && (err == nil || len(got) > 0) {
			t.Errorf("status %d renews %v", status, got)
		}
		if got, err := e.Leave(ctx, []engine.Claim{{Name: q.Name, ID: q.ID}}); status != 200 && (err == nil || len(got) > 0) {
			t.Errorf("status %d leaves %v", status, got)
		}
		if err := e.Revoke(ctx, "a", 1, true); status != 200 && err == nil {
			t.Errorf("status %d revokes", status)
		}
		e.Queue(ctx, "a")
		for _, err := range e.Queues(ctx, "") {
			if err != nil {
				break
			}
		}
		if err := e.Watch(ctx, func(engine.Claim) {}); err == nil {
			t.Error("a subscription ends without a cause")
		}
		if ctx.Err() != nil {
			t.Error("a call goes on")
		}
	})
}
