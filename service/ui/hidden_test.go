package ui

import (
	"context"
	"errors"
	"html"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

// openOnly is a site whose caller sees and may revoke what begins with open/.
func openOnly(t *testing.T) *site {
	seen := func(name string) bool { return strings.HasPrefix(name, "open/") }
	return open(t, Options{Rights: func(*http.Request) (Rights, error) { return Rights{Look: seen, Revoke: seen}, nil }})
}

func hold(c engine.Claim) engine.Hold { return engine.Hold{Name: c.Name, Ticket: c.Ticket} }

func TestTheNamesThatSomebodyHeldAreThoseThatTheCallerSees(t *testing.T) {
	s := openOnly(t)
	hidden, other := s.join("hidden/a", "x", false), s.join("open/other", "x", false)
	s.join("open/a", "holder", false)
	s.join("open/a", "waiter", true, hold(hidden), hold(other))
	page := s.shows("/name?name=open/a", "Held when it asked open/other :")
	if strings.Contains(page, "hidden/") {
		t.Errorf("the page has a name that is hidden from its caller:\n%s", page)
	}
	s.join("open/b", "holder", false)
	s.join("open/b", "waiter", true, hold(hidden))
	if page := s.shows("/name?name=open/b", "waiter"); strings.Contains(page, "Held when it asked") {
		t.Errorf("the page says that a hidden name is held:\n%s", page)
	}
}

func TestACircleThroughAHiddenNameIsNotMarked(t *testing.T) {
	s := openOnly(t)
	a, b := s.join("open/a", "one", false), s.join("hidden/b", "two", false)
	s.join("hidden/b", "one", true, hold(a))
	s.join("open/a", "two", true, hold(b))
	for _, path := range []string{"/name?name=open/a", "/graph", "/graph?name=open/a", "/why?name=open/a"} {
		if page := s.shows(path, "open/a"); strings.Contains(page, ", in a circle") || strings.Contains(page, "in a circle:") {
			t.Errorf("%s says that the caller is in a circle, which goes through a hidden name:\n%s", path, page)
		}
	}
}

func TestGrantsOfHiddenNamesAreNotCounted(t *testing.T) {
	s := openOnly(t)
	s.shows("/", "grants seen a second")
	s.join("hidden/a", "x", false)
	s.join("open/a", "x", false)
	s.shows("/", "open/a")
	s.h.feed.mu.Lock() // of one moment
	all, seen := s.h.feed.past.rate(func(string) bool { return true }), s.h.feed.past.rate(func(name string) bool { return strings.HasPrefix(name, "open/") })
	s.h.feed.mu.Unlock()
	if all == 0 || seen < all*0.4 || seen > all*0.6 {
		t.Errorf("%v grants a second are counted for one who sees half of %v", seen, all)
	}
}

func TestAnErrorOfTheEngineIsForThoseWhoSeeAll(t *testing.T) {
	s := openOnly(t)
	s.shows("/", "answers")
	s.h.feed.mu.Lock()
	s.h.feed.away(time.Now(), errors.New("the queue of hidden/a is broken").Error())
	s.h.feed.mu.Unlock()
	s.away.Store(true)
	if page := s.shows("/", "The engine does not answer since"); strings.Contains(page, "hidden/") || strings.Contains(page, errAway.Error()) {
		t.Errorf("the page has the error of the engine:\n%s", page)
	}
}

func TestTheGraphAroundAHiddenNameIsRefused(t *testing.T) {
	s := openOnly(t)
	s.join("hidden/a", "x", false)
	status, page := s.get("/graph?name=hidden/a")
	if status != http.StatusForbidden || strings.Contains(page, "it is free") {
		t.Errorf("status %d:\n%s", status, page)
	}
}

// The engine is read before it has answered that the claim has ended.
func TestAClaimThatWasRevokedHereIsSaidToBe(t *testing.T) {
	var s *site
	s = open(t, Options{
		Rights: func(*http.Request) (Rights, error) {
			return Rights{All: true, Revoke: func(string) bool { return true }}, nil
		},
		Revoke: func(ctx context.Context, name string, ticket uint64, now bool) error {
			err := s.Revoke(ctx, name, ticket, now)
			s.shows("/name?name=a", "Nobody holds it")
			return err
		},
	})
	c := s.join("a", "x", false)
	form := url.Values{"name": {"a"}, "ticket": {strconv.FormatUint(c.Ticket, 10)}, "typed": {"a"}, "now": {""}}
	if status, page := s.send("POST", "/revoke?name=a", form, "Sec-Fetch-Site", "same-origin"); status != http.StatusSeeOther && status != http.StatusOK {
		t.Fatalf("status %d:\n%s", status, page)
	}
	s.shows("/name?name=a", "lost: revoked : host pid 7 (x)")
	s.shows("/", "Lately lost", "lost: revoked : host pid 7 (x)")
}

// Two people revoke one claim, and the engine ends it for one of them. It is read between its
// two answers, or after both.
func TestASecondRevocationTakesNothingBack(t *testing.T) {
	for _, first := range []bool{true, false} {
		for _, between := range []bool{true, false} {
			c := engine.Claim{Name: "a", Ticket: 1, State: engine.Held}
			held, free := newPicture([]engine.Queue{{Name: "a", Claims: []engine.Claim{c}}}, nil), newPicture(nil, nil)
			f := newFeed(nil, time.Second, nil)
			f.revokes("a", 1)
			f.revokes("a", 1)
			f.revoked("a", 1, first)
			if between {
				f.past.note(held, free)
			}
			f.revoked("a", 1, !first)
			if !between {
				f.past.note(held, free)
			}
			if events, _, _, _ := f.history(func(*event) bool { return true }, 1); len(events) != 1 || events[0].Kind != revoked {
				t.Errorf("ended for the first (%v), read between (%v): %+v", first, between, events)
			}
			if len(f.past.ended) > 0 {
				t.Errorf("a claim that has gone is remembered: %v", f.past.ended)
			}
		}
	}
}

// A browser sends a line break in a field as two characters, so the name must not be one.
func TestANameWithALineBreakCanBeRevoked(t *testing.T) {
	var got string
	s := open(t, Options{
		Rights: func(*http.Request) (Rights, error) {
			return Rights{All: true, Revoke: func(string) bool { return true }}, nil
		},
		Revoke: func(_ context.Context, name string, _ uint64, _ bool) error { got = name; return nil },
	})
	const name = "two\nlines\r"
	c := s.join(name, "x", false)
	_, page := s.get("/revoke?" + query("name", name, "ticket", strconv.FormatUint(c.Ticket, 10)))
	_, after, _ := strings.Cut(page, `<form method="post" action="`)
	action, fields, _ := strings.Cut(after, `"`)
	form := url.Values{}
	for _, f := range regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(fields, -1) {
		form.Set(f[1], strings.NewReplacer("\r\n", "\r\n", "\n", "\r\n", "\r", "\r\n").Replace(html.UnescapeString(f[2])))
	}
	form.Set("typed", `"two\nlines\r"`)
	if status, page := s.send("POST", "/"+html.UnescapeString(action), form, "Sec-Fetch-Site", "same-origin"); got != name {
		t.Errorf("status %d, revoked %q:\n%s", status, got, page)
	}
}

// mayRevoke is a site whose caller may revoke everything, and what was revoked.
func mayRevoke(t *testing.T) (s *site, ended *[]uint64) {
	ended = &[]uint64{}
	s = open(t, Options{
		Every: time.Hour, // what was read once stays
		Rights: func(*http.Request) (Rights, error) {
			return Rights{All: true, Revoke: func(string) bool { return true }}, nil
		},
		Revoke: func(ctx context.Context, name string, ticket uint64, now bool) error {
			*ended = append(*ended, ticket)
			return s.Revoke(ctx, name, ticket, now)
		},
	})
	return s, ended
}

// fields are those of the form of a page that nobody sees.
func fields(page string) url.Values {
	form := url.Values{}
	for _, f := range regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		form.Set(f[1], html.UnescapeString(f[2]))
	}
	return form
}

// Who confirms that a wait ends was told that the holders keep what they have.
func TestAConfirmationOfTheEndOfAWaitEndsNoHold(t *testing.T) {
	s, ended := mayRevoke(t)
	a, w := s.join("a", "holder", false), s.join("a", "waiter", true)
	path := "/revoke?" + query("name", "a", "ticket", strconv.FormatUint(w.Ticket, 10))
	form := fields(s.shows(path, "Its place in the queue goes at once"))
	s.Leave(t.Context(), []engine.Claim{a})
	form.Set("typed", "a")
	status, page := s.send("POST", path, form, "Sec-Fetch-Site", "same-origin")
	if status != http.StatusConflict || len(*ended) > 0 || !strings.Contains(seen(page), "It holds the name by now. Nothing was revoked: look again.") {
		t.Errorf("status %d, revoked %v:\n%s", status, *ended, seen(page))
	}
	form = fields(page)
	form.Set("typed", "a")
	if status, page := s.send("POST", path, form, "Sec-Fetch-Site", "same-origin"); len(*ended) != 1 {
		t.Errorf("after a second look: status %d, revoked %v:\n%s", status, *ended, seen(page))
	}
}

// What one of several holders lets go is a part, and says nothing of who is next.
func TestTheRevocationOfOneOfSeveralHoldersFreesItsPart(t *testing.T) {
	s, _ := mayRevoke(t)
	shared := func(label string) engine.Claim {
		c, err := s.Join(t.Context(), engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: engine.Max, WaitTTL: time.Hour, TTL: time.Hour, Owner: engine.Owner{Label: label}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := shared("first")
	shared("second")
	shared("third")
	s.join("a", "waiter", true)
	path := "/revoke?" + query("name", "a", "ticket", strconv.FormatUint(first.Ticket, 10))
	page := s.shows(path, "Its part is free when it has let go", "; 2 others hold it too.")
	if strings.Contains(page, "is next") || strings.Contains(page, "The name is free") {
		t.Error(seen(page))
	}
	form := fields(page)
	form.Set("typed", "a")
	s.send("POST", path, form, "Sec-Fetch-Site", "same-origin")
	s.shows(path+"&done=", "Its part is free when it has let go, or in", "; 2 others hold it too.")
}

func TestAFormThatDoesNotComeEndsItsRequest(t *testing.T) {
	s := open(t, Options{})
	s.h.formWithin = 50 * time.Millisecond
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte("POST /revoke HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nname="))
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	b := make([]byte, 12)
	if _, err := conn.Read(b); err != nil || string(b) != "HTTP/1.1 400" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestPagesOfCallersWhoSeeTheSameShareAPart(t *testing.T) {
	asked := 0
	look := func(name string) bool { asked++; return strings.HasPrefix(name, "open/") }
	p := newPicture([]engine.Queue{{Name: "hidden/a"}, {Name: "open/a"}}, nil)
	rights := func(same string) *Rights { return &Rights{Look: look, Same: same} }
	if a, b := p.only(rights("one")), p.only(rights("one")); a != b || asked != 2 || len(a.snap.Queues) != 1 {
		t.Errorf("rights were asked %d times, for two names; %d queues", asked, len(a.snap.Queues))
	}
	if first, again := p.only(rights("")), p.only(rights("")); p.only(rights("one")) == p.only(rights("two")) || first == again {
		t.Error("callers share a part who may see other names")
	}
	for i := range 2 * maxParts {
		p.only(rights(strconv.Itoa(i)))
	}
	if len(p.parts.by) > maxParts {
		t.Errorf("%d parts are kept", len(p.parts.by))
	}
}
