package fencehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"leasehold"
	"leasehold/engine"
	"leasehold/fence"
	"leasehold/fence/fencehttp"
)

func name(r *http.Request) string { return "stock:" + r.PathValue("id") }

// shop is a server whose stock is guarded by the names stock:ID.
func shop(t *testing.T, wrote func(fence.Pass)) *httptest.Server {
	mux := http.NewServeMux()
	mux.Handle("PUT /stock/{id}", fencehttp.Handler(&fence.Memory{}, name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := fence.FromContext(r.Context())
		if !ok {
			t.Error("no pass for the handler")
		}
		wrote(p)
	})))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func put(t *testing.T, s *httptest.Server, path string, p fence.Pass) (*http.Response, error) {
	t.Helper()
	client := &http.Client{Transport: &fencehttp.Transport{Base: s.Client().Transport}}
	req, err := http.NewRequestWithContext(fence.NewContext(t.Context(), p), "PUT", s.URL+path, strings.NewReader("5"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		t.Cleanup(func() { resp.Body.Close() })
		if req.Header.Get(fencehttp.Token) != "" {
			t.Error("the transport changed the caller's request")
		}
	}
	return resp, err
}

func TestStaleRequestsAreRefusedAndToldWhy(t *testing.T) {
	var wrote []fence.Pass
	s := shop(t, func(p fence.Pass) { wrote = append(wrote, p) })
	pass := func(token leasehold.Token, mode engine.Modes) fence.Pass {
		return fence.Pass{Name: "stock:42", Token: token, Mode: mode}
	}
	const big = 1805961216000000001 // its neighbours are the same number to who uses doubles
	for _, step := range []struct {
		why   string
		pass  fence.Pass
		path  string
		stale bool
	}{
		{"the first", pass(big, engine.Exclusive), "/stock/42", false},
		{"the same again", pass(big, engine.Exclusive), "/stock/42", false},
		{"the next", pass(big+36, engine.Exclusive), "/stock/42", false},
		{"the first, late", pass(big, engine.Exclusive), "/stock/42", true},
		{"an old reader", pass(big+35, engine.Shared), "/stock/42", true},
		{"a reader of now", pass(big+37, engine.Shared), "/stock/42", false},
		{"a reader raises no mark", pass(big+36, engine.Exclusive), "/stock/42", false},
		{"another name", pass(1, engine.Exclusive), "/stock/7", false},
	} {
		before := len(wrote)
		resp, err := put(t, s, step.path, step.pass)
		if err != nil {
			t.Fatal(err)
		}
		err = fencehttp.Refused(resp)
		if errors.Is(err, fence.ErrStale) != step.stale {
			t.Fatalf("%s: %v, %v", step.why, resp.Status, err)
		}
		if !step.stale {
			if resp.StatusCode != 200 || len(wrote) != before+1 || wrote[before].Token != step.pass.Token || wrote[before].Mode != step.pass.Mode {
				t.Fatalf("%s: %v, wrote %v", step.why, resp.Status, wrote[before:])
			}
			continue
		}
		if resp.StatusCode != http.StatusConflict || len(wrote) != before {
			t.Fatalf("%s: %v, wrote %v", step.why, resp.Status, wrote[before:])
		}
		if stale, _ := errors.AsType[*fence.StaleError](err); *stale != (fence.StaleError{Name: "stock:42", Token: step.pass.Token, Mark: big + 36}) {
			t.Errorf("%s: %+v", step.why, stale)
		}
		var body struct{ Title, Detail, Name, Token, Mark string }
		if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
			t.Fatalf("%s: the body: %v", step.why, err)
		}
		if body.Name != "stock:42" || body.Token != step.pass.Token.String() || body.Mark != "1805961216000000037" || !strings.Contains(body.Detail, "lock again") {
			t.Errorf("%s: %+v", step.why, body)
		}
	}
}

func TestRequestsWithoutAProperToken(t *testing.T) {
	s := shop(t, func(p fence.Pass) { t.Errorf("let in: %v", p) })
	for _, test := range []struct {
		tokens []string
		want   int
	}{
		{nil, http.StatusPreconditionRequired},
		{[]string{""}, http.StatusBadRequest},
		{[]string{"many"}, http.StatusBadRequest},
		{[]string{"1", "2"}, http.StatusBadRequest},
		{[]string{"18446744073709551615"}, http.StatusBadRequest},
	} {
		req, err := http.NewRequestWithContext(t.Context(), "PUT", s.URL+"/stock/42", nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range test.tokens {
			req.Header.Add(fencehttp.Token, token)
		}
		resp, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != test.want || !json.Valid(body) {
			t.Errorf("%q: %v %s", test.tokens, resp.Status, body)
		}
		if err := fencehttp.Refused(resp); err != nil {
			t.Errorf("%q: %v", test.tokens, err)
		}
	}
}

// TestPermitsAreNotSent: a server could not know that the token is one of permits.
func TestPermitsAreNotSent(t *testing.T) {
	s := shop(t, func(p fence.Pass) { t.Errorf("let in: %v", p) })
	_, err := put(t, s, "/stock/42", fence.Pass{Name: "stock:42", Token: 1, Mode: engine.Permits})
	if !errors.Is(err, fence.ErrPass) {
		t.Fatal(err)
	}
}

// body notices that it was closed.
type body struct {
	io.Reader
	closed bool
}

func (b *body) Close() error { b.closed = true; return nil }

// TestTheTransportKeepsItsContract: a RoundTripper closes the body, whatever happens, and
// sends one token, that of the context, whatever header a program has set by hand.
func TestTheTransportKeepsItsContract(t *testing.T) {
	var sent []string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent = r.Header.Values(fencehttp.Token) }))
	defer s.Close()
	for _, mode := range []engine.Modes{engine.Exclusive, engine.Permits} {
		b := &body{Reader: strings.NewReader("5")}
		req, err := http.NewRequestWithContext(fence.NewContext(t.Context(), fence.Pass{Name: "n", Token: 7, Mode: mode}), "PUT", s.URL, b)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(fencehttp.Token, "99")
		resp, err := (&fencehttp.Transport{Base: s.Client().Transport}).RoundTrip(req)
		if (err == nil) != (mode == engine.Exclusive) {
			t.Error(err)
		}
		if err == nil {
			resp.Body.Close()
		} else if !b.closed {
			t.Error("the body of a request that was not sent stays open")
		}
	}
	if len(sent) != 1 || sent[0] != "7" {
		t.Errorf("sent %q", sent)
	}
}

// TestAConflictOfAnotherKindIsNotStale: 409 has other uses.
func TestAConflictOfAnotherKindIsNotStale(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fencehttp.Refuse(w, errors.New("an edit conflict")) {
			t.Error("refused")
		}
		w.WriteHeader(http.StatusConflict)
	}))
	defer s.Close()
	resp, err := put(t, s, "/", fence.Pass{Name: "n", Token: 1, Mode: engine.Exclusive})
	if err != nil {
		t.Fatal(err)
	}
	if err := fencehttp.Refused(resp); err != nil {
		t.Fatal(err)
	}
}

// inside knows whether a write is under way.
type inside bool

func (in *inside) Do(_ context.Context, _ fence.Pass, write func() error) error {
	*in = true
	defer func() { *in = false }()
	return write()
}

// TestTheHandlerRunsInOneStepWithTheCheck: after it, a newer token could come first.
func TestTheHandlerRunsInOneStepWithTheCheck(t *testing.T) {
	var in inside
	handled := false
	h := fencehttp.Handler(&in, name, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled = bool(in) }))
	r := httptest.NewRequest("PUT", "/", nil)
	r.Header.Set(fencehttp.Token, "1")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if !handled {
		t.Error("the handler ran outside")
	}
}

type down struct{}

func (down) Do(context.Context, fence.Pass, func() error) error { return errors.New("no database") }

// TestMarksThatCannotBeReadLetNobodyIn, and tell strangers nothing of the reason.
func TestMarksThatCannotBeReadLetNobodyIn(t *testing.T) {
	h := fencehttp.Handler(down{}, name, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("let in") }))
	r, w := httptest.NewRequest("PUT", "/", nil), httptest.NewRecorder()
	r.Header.Set(fencehttp.Token, "1")
	h.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "database") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
