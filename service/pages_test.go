package service

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
)

// browser is one that asks a Server for pages, as its caller.
type browser struct {
	testing.TB
	base     string
	password string
}

// paged serves pages for an access list, whose tokens are by the names of callers.
func paged(t testing.TB, eng engine.Engine, lines map[string]string, o Options) (base string, tokens map[string]string) {
	t.Helper()
	tokens = map[string]string{}
	if lines != nil {
		var list strings.Builder
		for name, rest := range lines {
			token, credential := NewToken()
			tokens[name] = token
			fmt.Fprintln(&list, name, credential, rest)
		}
		file := filepath.Join(t.TempDir(), "access")
		if err := os.WriteFile(file, []byte(list.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		access, err := LoadAccess(file)
		if err != nil {
			t.Fatal(err)
		}
		o.Access = access
	}
	s, err := New(eng, &o)
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Drain()
		h.CloseClientConnections()
		h.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return h.URL, tokens
}

func (b *browser) send(method, path string, form url.Values, headers ...string) (status int, header http.Header, text string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	if b.password != "" {
		r.SetBasicAuth("anybody", b.password)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		b.Fatal(err)
	}
	return a.StatusCode, a.Header, string(body)
}

func (b *browser) shows(path string, texts ...string) {
	b.Helper()
	var last string
	until(b, fmt.Sprintf("%s does not show %q", path, texts), func() bool {
		_, _, last = b.send("GET", path, nil)
		for _, text := range texts {
			if !strings.Contains(last, text) {
				return false
			}
		}
		return true
	})
}

func held(t testing.TB, eng engine.Engine, name, label string) engine.Claim {
	t.Helper()
	c, err := eng.Join(t.Context(), engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Hour, TTL: time.Hour,
		Owner: engine.Owner{Label: label, Since: time.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAPersonSeesWhatTheListAllows(t *testing.T) {
	st := store(t)
	eng := st.Engine()
	base, tokens := paged(t, st.Engine(), map[string]string{
		"all":    "look *",
		"some":   "look jobs/",
		"locks":  "lock *",
		"mighty": "look,revoke jobs/",
	}, Options{})
	defer eng.Close()
	job, other := held(t, eng, "jobs/a", "worker"), held(t, eng, "other", "secretive")

	nobody := &browser{t, base, ""}
	status, header, _ := nobody.send("GET", "/ui/", nil)
	if status != 401 || !strings.HasPrefix(header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("without a token: %d %q", status, header.Get("WWW-Authenticate"))
	}
	if status, header, _ = nobody.send("GET", "/v1/queues", nil); status != 401 || header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("programs: %d %q", status, header.Get("WWW-Authenticate"))
	}
	if status, _, _ := (&browser{t, base, "lht_wrong"}).send("GET", "/ui/", nil); status != 401 {
		t.Errorf("a wrong token: %d", status)
	}
	all := &browser{t, base, tokens["all"]}
	if status, _, _ := all.send("GET", "/v1/queues", nil); status != 401 {
		t.Errorf("a password opens more than pages: %d", status)
	}
	if status, header, _ := all.send("GET", "/ui", nil); status != 303 || header.Get("Location") != "ui/" {
		t.Errorf("/ui: %d %q", status, header.Get("Location"))
	}
	all.shows("/ui/", "jobs/a", "worker", "secretive", "You are all")

	some := &browser{t, base, tokens["some"]}
	some.shows("/ui/", "jobs/a", "worker", "<b>1</b> name")
	for _, path := range []string{"/ui/", "/ui/graph", "/ui/name?name=other", "/ui/why?name=other", "/ui/?prefix=other"} {
		if _, _, page := some.send("GET", path, nil); strings.Contains(page, "secretive") {
			t.Errorf("%s shows what the list does not allow", path)
		}
	}
	for _, path := range []string{"/ui/name?name=other", "/ui/why?name=other"} {
		if status, _, _ := some.send("GET", path, nil); status != 403 {
			t.Errorf("%s: %d", path, status)
		}
	}
	lost := held(t, eng, "other/lost", "vanished")
	all.shows("/ui/", "other/lost")
	if err := eng.Revoke(t.Context(), "other/lost", lost.Ticket, false); err != nil {
		t.Fatal(err)
	}
	all.shows("/ui/name?name=other/lost", "revoked, still held")
	if _, err := eng.Leave(t.Context(), []engine.Claim{lost}); err != nil {
		t.Fatal(err)
	}
	all.shows("/ui/", "Lately lost", "vanished")
	if _, _, page := some.send("GET", "/ui/", nil); strings.Contains(page, "vanished") {
		t.Error("what was lost shows more than the list allows")
	}
	locks := &browser{t, base, tokens["locks"]}
	for _, path := range []string{"/ui/", "/ui/events", "/ui/name?name=jobs/a"} {
		if status, _, page := locks.send("GET", path, nil); status != 403 || !strings.Contains(page, "may not look") {
			t.Errorf("%s without the right to look: %d %s", path, status, page)
		}
	}
	// Who may look may not revoke, and who may does so for his prefix.
	own := []string{"Sec-Fetch-Site", "same-origin"}
	form := func(c engine.Claim, typed string) url.Values {
		return url.Values{"name": {c.Name}, "ticket": {fmt.Sprint(c.Ticket)}, "typed": {typed}}
	}
	for _, b := range []*browser{all, some, locks} {
		if status, _, _ := b.send("POST", "/ui/revoke", form(job, "jobs/a"), own...); status != 403 {
			t.Errorf("a revocation without the right: %d", status)
		}
	}
	mighty := &browser{t, base, tokens["mighty"]}
	if status, _, _ := mighty.send("POST", "/ui/revoke", form(other, "other"), own...); status != 403 {
		t.Errorf("a revocation of another prefix: %d", status)
	}
	if status, _, page := mighty.send("POST", "/ui/revoke", form(job, "jobs/b"), own...); status != 422 || !strings.Contains(page, "Nothing was revoked") {
		t.Errorf("another name was typed: %d", status)
	}
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}, nil,
	} {
		if status, _, _ := mighty.send("POST", "/ui/revoke", form(job, "jobs/a"), headers...); status != 403 {
			t.Errorf("%v: %d", headers, status)
		}
	}
	q, _ := eng.Queue(t.Context(), "jobs/a")
	if len(q.Claims) != 1 || q.Claims[0].Revoked {
		t.Fatalf("something was revoked: %+v", q)
	}
	status, header, _ = mighty.send("POST", "/ui/revoke", form(job, "jobs/a"), own...)
	if status != 303 || !strings.HasPrefix(header.Get("Location"), "revoke?") {
		t.Fatalf("a revocation: %d %q", status, header.Get("Location"))
	}
	mighty.shows("/ui/"+header.Get("Location"), "is revoked, and", "worker")
	if q, _ = eng.Queue(t.Context(), "jobs/a"); !q.Claims[0].Revoked {
		t.Error("nothing was revoked")
	}
}

// Where everybody may do everything, a page may revoke too.
func TestWithoutAListPagesMayRevoke(t *testing.T) {
	st := store(t)
	eng := st.Engine()
	defer eng.Close()
	base, _ := paged(t, st.Engine(), nil, Options{})
	c := held(t, eng, "a", "x")
	b := &browser{t, base, ""}
	b.shows("/ui/name?name=a", fmt.Sprintf(`href="revoke?name=a&amp;ticket=%d"`, c.Ticket))
	b.shows(fmt.Sprintf("/ui/revoke?name=a&ticket=%d", c.Ticket), "It is notified and loses the name", "Nobody waits behind it")
	w := held(t, eng, "a", "y")
	b.shows(fmt.Sprintf("/ui/revoke?name=a&ticket=%d", c.Ticket), fmt.Sprintf("is next, ticket %d", w.Ticket))
	form := url.Values{"name": {"a"}, "ticket": {fmt.Sprint(c.Ticket)}, "typed": {"a"}, "now": {"on"}}
	status, header, _ := b.send("POST", "/ui/revoke", form, "Origin", base)
	if status != 303 {
		t.Fatal(status)
	}
	b.shows("/ui/"+header.Get("Location"), fmt.Sprintf("Ticket %d on", c.Ticket), "has ended")
	b.shows("/ui/name?name=a", "lost: revoked")
	if status, _, page := b.send("GET", fmt.Sprintf("/ui/revoke?name=a&ticket=%d", c.Ticket), nil); status != 200 || !strings.Contains(page, "nothing to revoke") {
		t.Errorf("what has ended: %d", status)
	}
}

// A page that follows changes does not hold up the end of the Server, and what a page does by
// itself is no line in the log.
func TestPagesEndWithTheServer(t *testing.T) {
	t.Parallel()
	var log locked
	s, err := New(store(t).Engine(), &Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx, ln, RunOptions{Patience: time.Hour}) }()
	base := "http://" + ln.Addr().String()
	client := &http.Client{Transport: &http.Transport{}}
	a, err := client.Get(base + "/ui/events")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	buffer := make([]byte, 100)
	for seen := ""; !strings.Contains(seen, "changed"); {
		n, err := a.Body.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		seen += string(buffer[:n])
	}
	b := &browser{t, base, ""}
	b.send("GET", "/ui/?live=1", nil)
	b.send("GET", "/ui/graph", nil)
	cancel()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second): // far less than its patience
		t.Fatal("a page that follows changes holds up the end")
	}
	client.CloseIdleConnections()
	if text := log.String(); strings.Contains(text, "path=/ui/events") || strings.Contains(text, "path=/ui/ ") || !strings.Contains(text, "path=/ui/graph") {
		t.Error(text)
	}
}

// locked is a buffer for several writers.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *locked) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
