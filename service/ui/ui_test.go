package ui

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counted is an engine that can be away, and counts what it is asked.
type counted struct {
	engine.Engine
	queues, single atomic.Int64
	away           atomic.Bool
	hangs          atomic.Bool
}

var errAway = errors.New("connection refused")

func (c *counted) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	c.queues.Add(1)
	return func(yield func(engine.Queue, error) bool) {
		if c.hangs.Load() {
			<-ctx.Done()
			yield(engine.Queue{}, ctx.Err())
			return
		}
		if c.away.Load() {
			yield(engine.Queue{}, errAway)
			return
		}
		c.Engine.Queues(ctx, prefix)(yield)
	}
}

func (c *counted) Queue(ctx context.Context, name string) (engine.Queue, error) {
	c.single.Add(1)
	if c.away.Load() {
		return engine.Queue{}, errAway
	}
	return c.Engine.Queue(ctx, name)
}

// site is a Handler that runs, and how to ask it.
type site struct {
	testing.TB
	*counted
	h   *Handler
	url string
}

func open(t testing.TB, o Options) *site {
	t.Helper()
	s := &site{TB: t, counted: &counted{Engine: memlock.New()}}
	o.Source = s.counted
	if o.Every == 0 {
		o.Every = 20 * time.Millisecond
	}
	s.h = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.h.Run(ctx) })
	server := httptest.NewServer(s.h)
	s.url = server.URL
	t.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
		running.Wait()
		s.counted.Close()
	})
	return s
}

func (s *site) join(name, label string, wait bool, holds ...engine.Hold) engine.Claim {
	s.Helper()
	c, err := s.Join(s.Context(), engine.Request{
		Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Hour, TTL: time.Hour, NoWait: !wait,
		Owner: engine.Owner{Host: "host", PID: 7, Label: label, Since: time.Now().Add(-time.Minute), Holds: holds},
	})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// get is a page, as text with its markup.
func (s *site) get(path string) (status int, text string) {
	s.Helper()
	return s.send("GET", path, nil)
}

func (s *site) send(method, path string, form url.Values, headers ...string) (status int, text string) {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	a, err := client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		s.Fatal(err)
	}
	return a.StatusCode, string(body)
}

// shows waits until a page has all of these texts, which it must within some seconds.
func (s *site) shows(path string, texts ...string) string {
	s.Helper()
	var page string
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, page = s.get(path)
		missing := ""
		for _, text := range texts {
			if !strings.Contains(seen(page), text) {
				missing = text
			}
		}
		if missing == "" {
			return page
		}
		if time.Now().After(end) {
			s.Fatalf("%s has no %q: %s", path, missing, short(seen(page), 1500))
		}
	}
}

var between = regexp.MustCompile(`<[^>]*>`)

// seen is what a person reads of a page.
func seen(page string) string {
	return strings.Join(strings.Fields(html.UnescapeString(between.ReplaceAllString(page, " "))), " ")
}

func TestPagesShowHoldersAndWaiters(t *testing.T) {
	s := open(t, Options{})
	s.shows("/", "No name is held or waited for", "0 names")
	a := s.join("a", "first", true)
	w := s.join("a", "second", true)
	s.shows("/", "1 name", "1 holder", "1 waiter", "host pid 7 (first)", "exclusive", "Holder asked")
	page := s.shows("/name?name=a", "host pid 7 (first)", "host pid 7 (second)", "held, wanted", "waiting",
		fmt.Sprint(a.Ticket), fmt.Sprint(w.Ticket), fmt.Sprint(w.Ticket<<engine.HandoffBits), "1 holds it")
	if strings.Contains(page, "revoke?") {
		t.Error("a read-only page leads to a revocation")
	}
	s.shows("/why?name=a", fmt.Sprintf("a is held by host pid 7 (first) (exclusive, ticket %d), who waits for nothing here", a.Ticket))
	s.shows("/graph", "host pid 7 (first)", "waits for", fmt.Sprint(w.Ticket), "The longest wait is for a")
	s.shows("/name?name=free", "Nobody holds it")
}

func TestTheHistoryIsWhatWasSeen(t *testing.T) {
	s := open(t, Options{})
	s.shows("/", "0 names")
	a := s.join("a", "first", true)
	w := s.join("a", "second", true)
	s.shows("/name?name=a", "waits : host pid 7 (second)")
	s.Leave(t.Context(), []engine.Claim{a})
	page := seen(s.shows("/name?name=a", "granted : host pid 7 (second)"))
	for _, want := range []string{"granted : host pid 7 (first)", "released : host pid 7 (first)"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if err := s.Revoke(t.Context(), "a", w.Ticket, false); err != nil {
		t.Fatal(err)
	}
	s.shows("/name?name=a", "revoked, still held : host pid 7 (second)")
	s.Leave(t.Context(), []engine.Claim{w})
	s.shows("/name?name=a", "lost: revoked : host pid 7 (second)")
	s.shows("/", "Lately lost", "lost: revoked : host pid 7 (second)")
	short := engine.Request{Name: "b", ID: engine.NewID(), Permits: 1, Limit: 2, WaitTTL: 3 * time.Second, TTL: 3 * time.Second, Owner: engine.Owner{Label: "brief"}}
	if _, err := s.Join(t.Context(), short); err != nil {
		t.Fatal(err)
	}
	s.shows("/name?name=b", "1 of 2")
	s.shows("/name?name=b", "lost: its time ran out : brief")
}

func TestACircleIsMarkedAndSaid(t *testing.T) {
	s := open(t, Options{})
	a, b := s.join("a", "A", true), s.join("b", "B", true)
	s.join("b", "A", true, engine.Hold{Name: "a", Ticket: a.Ticket})
	v := s.join("a", "B", true, engine.Hold{Name: "b", Ticket: b.Ticket})
	page := s.shows("/graph", "2 callers wait for each other in a circle", fmt.Sprintf("revoke the waiting ticket %d on a", v.Ticket), "waits for, in a circle")
	if n := strings.Count(page, `class="caller circle"`); n != 2 {
		t.Errorf("%d callers are marked", n)
	}
	if n := strings.Count(page, `class="name circle"`); n != 2 {
		t.Errorf("%d names are marked", n)
	}
	s.shows("/why?name=a", "a cycle", "2 callers wait for each other")
	s.shows("/name?name=b", "waiting, in a circle")
	s.Revoke(t.Context(), "a", v.Ticket, false)
	if page = s.shows("/graph", "Nobody waits in a circle"); strings.Contains(page, `circle"`) {
		t.Error("still marked")
	}
}

// However many pages are open, the engine is read by one: no more often than for one page.
func TestAHundredPagesReadTheEngineOnce(t *testing.T) {
	s := open(t, Options{Every: 50 * time.Millisecond})
	s.join("a", "x", true)
	ctx, cancel := context.WithCancel(t.Context())
	client := &http.Client{Transport: &http.Transport{}}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var events, renders atomic.Int64
	for range 100 {
		all.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", s.url+"/events", nil)
			a, err := client.Do(r)
			if err != nil {
				return
			}
			defer a.Body.Close()
			buffer := make([]byte, 1000)
			for {
				n, err := a.Body.Read(buffer)
				if err != nil {
					return
				}
				if strings.Contains(string(buffer[:n]), "changed") {
					events.Add(1)
				}
			}
		})
		all.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, "GET", s.url+"/name?name=a", nil)
				if a, err := client.Do(r); err == nil {
					io.Copy(io.Discard, a.Body)
					a.Body.Close()
					renders.Add(1)
				}
			}
		})
	}
	began, before := time.Now(), s.queues.Load()
	for renders.Load() < 1000 || events.Load() < 100 {
		time.Sleep(10 * time.Millisecond)
		if time.Since(began) > time.Minute {
			t.Fatalf("%d pages, %d events", renders.Load(), events.Load())
		}
	}
	n, most := s.queues.Load()-before, int64(time.Since(began)/(50*time.Millisecond))+2
	if n > most {
		t.Errorf("the engine was read %d times in %v", n, time.Since(began))
	}
	if s.single.Load() != 0 {
		t.Errorf("single queues were read %d times", s.single.Load())
	}
	client.CloseIdleConnections()
}

// Pages of one name that nobody holds share a reading too, and nobody reads while no page is
// open.
func TestAFreeNameIsReadOnce(t *testing.T) {
	s := open(t, Options{Every: time.Hour})
	s.shows("/", "0 names")
	for range 50 {
		s.shows("/name?name=free", "Nobody holds it")
	}
	if n := s.single.Load(); n != 1 {
		t.Errorf("read %d times", n)
	}
}

func TestWithoutPagesNothingIsRead(t *testing.T) {
	s := open(t, Options{})
	time.Sleep(100 * time.Millisecond)
	if n := s.queues.Load(); n != 0 {
		t.Errorf("read %d times", n)
	}
	s.shows("/", "0 names")
}

func TestAnEngineThatIsAwayIsSaidAndComesBack(t *testing.T) {
	s := open(t, Options{})
	s.join("a", "x", true)
	s.shows("/", "host pid 7 (x)", "engine answers")
	s.away.Store(true)
	page := s.shows("/", "does not answer since", "connection refused", "What stands here is old", "host pid 7 (x)", "engine away")
	// Of a name that was not read nobody knows whether it is free, and the script looks again.
	for _, path := range []string{"/name?name=unread", "/why?name=unread", "/graph?name=unread"} {
		status, unread := s.get(path)
		if status != http.StatusServiceUnavailable || !strings.Contains(unread, "it is not known whether") || !strings.Contains(unread, `id="live"`) {
			t.Errorf("%s: %d\n%s", path, status, unread)
		}
	}
	if strings.Contains(seen(page), "engine answers") {
		t.Error("both")
	}
	s.shows("/name?name=a", "does not answer since", "host pid 7 (x)")
	s.away.Store(false)
	s.join("b", "y", true)
	if page = s.shows("/", "host pid 7 (y)"); strings.Contains(page, "does not answer") {
		t.Error("it is back, and the page says that it is away")
	}
}

// Of a name beyond those that are read nothing is known: it may be held.
func TestANameBeyondThoseThatAreReadIsNotDrawn(t *testing.T) {
	s := open(t, Options{Every: time.Hour})
	s.join("a", "x", true)
	s.shows("/", "host pid 7 (x)")
	s.shows("/graph?name=free", "Nobody holds free: it is free", "Nobody holds free or waits for it")
	s.h.feed.mu.Lock()
	s.h.feed.shot.cut = true
	s.h.feed.mu.Unlock()
	for _, path := range []string{"/why?name=beyond", "/graph?name=beyond"} {
		if status, page := s.get(path); status != http.StatusNotImplemented || strings.Contains(page, "it is free") {
			t.Errorf("%s: %d\n%s", path, status, page)
		}
	}
	s.shows("/graph?name=a", "host pid 7 (x)")
}

func TestAnEngineThatHangsIsSaid(t *testing.T) {
	s := open(t, Options{})
	s.join("a", "x", true)
	s.shows("/", "host pid 7 (x)")
	s.hangs.Store(true)
	s.shows("/", "does not answer since", "has not ended within 2s", "host pid 7 (x)")
}

// A page that could not be read goes on by itself. What came of a form must stay.
func TestAPageThatCouldNotBeReadGoesOn(t *testing.T) {
	s, _ := mayRevoke(t)
	c := s.join("a", "x", true)
	s.shows("/", "host pid 7 (x)")
	s.away.Store(true)
	if status, page := s.get("/name?name=unread"); status != http.StatusBadGateway || !strings.Contains(page, `id="live"`) {
		t.Errorf("%d\n%s", status, page)
	}
	form := url.Values{"ticket": {fmt.Sprint(c.Ticket)}, "typed": {"a"}}
	if status, page := s.send("POST", "/revoke?name=a", form, "Sec-Fetch-Site", "same-origin"); status != http.StatusBadGateway || strings.Contains(page, `id="live"`) {
		t.Errorf("of a form: %d\n%s", status, page)
	}
}

// After Run nobody reads the engine, and pages say so.
func TestAPageAfterTheEndIsSaidToBeOld(t *testing.T) {
	source := &counted{Engine: memlock.New()}
	defer source.Close()
	h := New(Options{Source: source})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { h.Run(ctx) })
	overview := func() string {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		return seen(w.Body.String())
	}
	if page := overview(); !strings.Contains(page, "engine answers") || strings.Contains(page, "not read") {
		t.Error(page)
	}
	cancel()
	running.Wait()
	if page := overview(); !strings.Contains(page, "The engine is not read any more") || !strings.Contains(page, "What stands here is old") || strings.Contains(page, "engine answers") {
		t.Error(page)
	}
}

// blind is an engine that does not show who waits.
type blind struct{ engine.Engine }

func (b *blind) Guarantees() engine.Guarantees {
	g := b.Engine.Guarantees()
	g.SeesWaiters = false
	return g
}

func TestAnEngineThatHidesWaitersHasNoGraph(t *testing.T) {
	s := open(t, Options{})
	s.counted.Engine = &blind{s.counted.Engine}
	for _, path := range []string{"/graph", "/graph?name=a", "/why?name=a"} {
		if status, page := s.get(path); status != http.StatusNotImplemented || !strings.Contains(page, "does not show who waits") || strings.Contains(page, "Nobody waits") {
			t.Errorf("%s: %d\n%s", path, status, seen(page))
		}
	}
}

// What clients wrote is text, and shows what it is.
func TestHostileTextIsInert(t *testing.T) {
	s := open(t, Options{})
	hostile := "</title><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e{{.}}\n\x1b"
	label := "\u202e\xff" + strings.Repeat("<b>", 100) + "\u202e\xff"
	a := s.join(hostile, label, true)
	s.join(hostile, "javascript:alert(1)", true, engine.Hold{Name: hostile, Ticket: a.Ticket})
	at := "?" + url.Values{"name": {hostile}}.Encode()
	for _, path := range []string{"/", "/?" + url.Values{"prefix": {hostile}}.Encode(), "/name" + at, "/why" + at, "/graph" + at, "/graph"} {
		page := s.shows(path, `</title><script>alert(1)</script>`, `\u202e{{.}}\n\x1b`)
		body := strings.Replace(page, `<script src="script.js" defer></script>`, "", 1)
		body = regexp.MustCompile(`(<input id="prefix" name="prefix") value="[^"]*"`).ReplaceAllString(body, "$1") // what a person typed stays so
		for _, bad := range []string{"<script", "<img", "<b><b>", "\u202e", "\x1b", "\xff"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %q", path, bad)
			}
		}
	}
	// The link of the overview leads to that name.
	page := s.shows("/", "1 name")
	m := regexp.MustCompile(`href="(name\?[^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatal("no link")
	}
	s.shows("/"+html.UnescapeString(m[1]), "1 holds it")
	if status, page := s.get("/name?name=%ff"); status != 400 || strings.Contains(page, "\xff") {
		t.Error(status)
	}
}

// Nothing but files of this Handler runs or styles a page, and no link leaves its folder.
func TestPagesAreStrictAndRelative(t *testing.T) {
	s := open(t, Options{})
	s.join("a/b", "x", true)
	s.join("a/b", "y", true)
	s.shows("/", "1 waiter")
	for _, path := range []string{"/", "/name?name=a%2Fb", "/graph", "/why?name=a%2Fb", "/name", "/nowhere"} {
		a, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(a.Body)
		a.Body.Close()
		for k, v := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store"} {
			if got := a.Header.Get(k); got != v {
				t.Errorf("%s: %s is %q", path, k, got)
			}
		}
		for _, m := range regexp.MustCompile(`(?:href|src|action|formaction)="([^"]*)"`).FindAllStringSubmatch(string(body), -1) {
			if u, err := url.Parse(html.UnescapeString(m[1])); err != nil || u.IsAbs() || u.Host != "" || strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path, "..") {
				t.Errorf("%s links to %s", path, m[1])
			}
		}
		if regexp.MustCompile(`(?i)<[^>]*\s(style|on[a-z]+)=|<style|<script(>| [^s])`).Match(body) {
			t.Errorf("%s has a script or style in it", path)
		}
	}
	for _, file := range []string{"/style.css", "/script.js", "/icon.svg"} {
		if status, _ := s.get(file); status != 200 {
			t.Errorf("%s: %d", file, status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAHostOfOthersIsRefused(t *testing.T) {
	s := open(t, Options{Loopback: true})
	for host, want := range map[string]int{"localhost": 200, "localhost:80": 200, "127.0.0.1:99": 200, "[::1]:80": 200, "evil.example": 403, "10.0.0.1": 403, "127.0.0.1.evil.example": 403} {
		if status, _ := s.send("GET", "/", nil, "Host", host); status != want {
			t.Errorf("%s: %d", host, status)
		}
	}
}

// Very many names: a page of them, sorted by what hurts, and how many more there are.
func TestManyNamesArePagedAndSorted(t *testing.T) {
	s := open(t, Options{})
	for i := range 1000 {
		s.join(fmt.Sprintf("n/%04d", i), "x", true)
	}
	s.join("n/0500", "waits", true)
	page := s.shows("/", "1,000 names", "1 to 200 of 1,000 names")
	if rows := strings.Count(page, "<tr data-name"); rows != perPage {
		t.Errorf("%d rows", rows)
	}
	if first := regexp.MustCompile(`data-name="([^"]*)"`).FindStringSubmatch(page); first == nil || first[1] != "n/0500" {
		t.Errorf("%v is first", first)
	}
	s.shows("/?sort=name&page=5", "801 to 1,000 of 1,000", "n/0999")
	s.shows("/?prefix=n/09", "100 names", "n/0900")
	s.shows("/?sort=name&page=99999999999999999999999", "801 to 1,000 of 1,000")
	s.shows("/?sort=name&page=-1", "1 to 200 of 1,000")
	s.shows("/?prefix=none", "No name that begins with none")
}

// BenchmarkOverview is what a page of very many names costs the server, without reading them.
func BenchmarkOverview(b *testing.B) {
	s := open(b, Options{Every: time.Hour})
	for i := range 10_000 {
		s.join(fmt.Sprintf("n/%05d", i), "x", true)
	}
	s.shows("/", "10,000 names")
	for _, path := range []string{"/", "/?sort=name&page=7", "/?prefix=n/0", "/graph"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest("GET", path, nil)
				s.h.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}

// What happened while nobody looked is not made up: the history has a gap.
func TestATimeWithoutAPictureIsAGap(t *testing.T) {
	s := open(t, Options{})
	a := s.join("a", "first", true)
	s.shows("/name?name=a", "host pid 7 (first)")
	s.h.feed.mu.Lock()
	s.h.feed.wanted = time.Now().Add(-2 * linger) // as after that time
	s.h.feed.mu.Unlock()
	until := time.Now().Add(20 * time.Second)
	for n := s.queues.Load(); ; n = s.queues.Load() {
		if time.Sleep(200 * time.Millisecond); s.queues.Load() == n {
			break // it sleeps
		}
		if time.Now().After(until) {
			t.Fatal("it reads on, though no page is open")
		}
	}
	s.Leave(t.Context(), []engine.Claim{a})
	s.join("a", "second", true)
	page := seen(s.shows("/name?name=a", "host pid 7 (second)", "Nobody looked from", "Nothing was seen to happen"))
	if strings.Contains(page, "released :") {
		t.Error(page)
	}
}

// What happened while the engine was away happened between two times.
func TestWhatHappenedWhileTheEngineWasAwayHasTwoTimes(t *testing.T) {
	h := &history{}
	claim := engine.Claim{Name: "a", Ticket: 1, State: engine.Held, Permits: 1, Limit: 1, TTL: 3 * time.Second}
	before := newPicture([]engine.Queue{{Name: "a", Limit: 1, Claims: []engine.Claim{claim}}}, nil)
	before.at = time.Now()
	now := newPicture(nil, before)
	for _, c := range []struct {
		later time.Duration
		kind  kind
		wide  bool
	}{{time.Second, released, false}, {3 * time.Second, expired, false}, {time.Minute, expired, true}} {
		now.at = before.at.Add(c.later)
		h.note(before, now)
		if e := h.last(func(*event) bool { return true }, 1)[0]; e.Kind != c.kind || e.Wide() != c.wide {
			t.Errorf("after %v: %s, wide %v", c.later, e.Kind, e.Wide())
		}
	}
	if n := h.lostBy(before.at)["a"]; n != 2 {
		t.Errorf("%d losses", n)
	}
}

// The history keeps the newest, however much happens.
func TestTheHistoryIsBounded(t *testing.T) {
	r := ring{most: 3}
	for i := range 8 {
		r.add(event{Claim: engine.Claim{Ticket: uint64(i)}})
		var got []uint64
		r.newest(func(e *event) bool { got = append(got, e.Claim.Ticket); return true })
		if len(got) != min(i+1, 3) || got[0] != uint64(i) || got[len(got)-1] != uint64(max(0, i-2)) {
			t.Fatalf("after %d: %v", i, got)
		}
	}
}

// put escapes whatever is not markup of the source.
func TestPutEscapes(t *testing.T) {
	for _, text := range []any{`<a "b" 'c' & d>`, errors.New(`<a "b" 'c' & d>`), problem(`<a "b" 'c' & d>`), kind(`<a "b" 'c' & d>`)} {
		if got := sprint("%s", text); got != "&lt;a &#34;b&#34; &#39;c&#39; &amp; d&gt;" {
			t.Errorf("%T: %s", text, got)
		}
	}
}

// What hurts is first: the longest wait, then the most waiters, then losses, then the name.
func TestWhatHurtsIsFirst(t *testing.T) {
	now := time.Now()
	rows := []*row{
		{Name: "calm"}, {Name: "lost", Lost: 1}, {Name: "short", Waiting: 1, Waits: now.Add(-time.Second)},
		{Name: "long", Waiting: 1, Waits: now.Add(-time.Hour)}, {Name: "many", Waiting: 5, Waits: now.Add(-time.Hour)},
	}
	for how, want := range map[string]string{
		"hurt": "many long short lost calm", "wait": "long many short calm lost", "many": "many long short calm lost",
		"lost": "lost long many short calm", "name": "calm long lost many short",
	} {
		slices.SortFunc(rows, orders[how])
		var got []string
		for _, r := range rows {
			got = append(got, r.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", how, got, want)
		}
	}
}
