package service

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/remote"
)

// The same key twice: a caller asks again because its answer does not come, and the Server has
// not noticed that the first request has nobody any more. When the wait of that one is over,
// it must not end what the other has obtained.
func TestTheEndOfAWaitTakesNothingFromTheSameKey(t *testing.T) {
	t.Parallel()
	_, base := plainly(t, store(t).Engine(), nil)
	var all sync.WaitGroup
	for i := range 12 {
		at := fmt.Sprint(base, "/v1/locks/n", i)
		key := keyed(fmt.Sprint("key", i))
		holder := send(t, "POST", at, `{}`)
		holder.want(t, 200, "held")
		all.Go(func() {
			r, err := try(t.Context(), "POST", at, `{"wait": "5s"}`, key...)
			if err != nil || r.status != 200 && r.status != 409 {
				t.Errorf("the first request: %d %s %v", r.status, r.text, err)
			}
		})
		until(t, "the first does not wait", func() bool {
			return len(send(t, "GET", fmt.Sprint(base, "/v1/queues/n", i), "").Claims) == 2
		})
		all.Go(func() {
			r, err := try(t.Context(), "POST", at, `{"wait": "20s"}`, key...)
			if err != nil || r.status != 200 {
				t.Errorf("the same key again: %d %s %v", r.status, r.text, err)
				return
			}
			time.Sleep(4 * time.Second) // the wait of the first is over
			if kept, err := try(t.Context(), "PUT", at, ``, bearer(r)...); err != nil || kept.status != 200 {
				t.Errorf("what was held: %d %s %v", kept.status, kept.text, err)
			}
		})
		all.Go(func() {
			time.Sleep(1500 * time.Millisecond)
			if r, err := try(t.Context(), "DELETE", at, ``, bearer(holder)...); err != nil || r.status != 200 {
				t.Errorf("the holder: %d %s %v", r.status, r.text, err)
			}
		})
	}
	all.Wait()
}

// Two requests with one key have one place. The end of the shorter wait leaves it to the other.
func TestTheShorterWaitOfAKeyLeavesThePlaceToTheOther(t *testing.T) {
	t.Parallel()
	_, base := plainly(t, store(t).Engine(), nil)
	at := base + "/v1/locks/a"
	holder := send(t, "POST", at, `{"ttl": "1m"}`)
	holder.want(t, 200, "held")
	long := make(chan reply, 1)
	go func() {
		r, err := try(t.Context(), "POST", at, `{"wait": "30s", "ttl": "1m"}`, keyed("key")...)
		if err != nil {
			r.text = err.Error()
		}
		long <- r
	}()
	until(t, "it does not wait", func() bool { return len(send(t, "GET", base+"/v1/queues/a", "").Claims) == 2 })
	for _, body := range []string{`{"wait": "50ms", "ttl": "1m"}`, `{"ttl": "1m"}`} {
		r := send(t, "POST", at, body, keyed("key")...)
		r.want(t, 409, "busy")
	}
	holder = send(t, "DELETE", at, "", bearer(holder)...)
	holder.want(t, 200, "released")
	if r := <-long; r.status != 200 {
		t.Errorf("the one that waits on: %d %s", r.status, r.text)
	}
	// The last one takes the place with it.
	other := base + "/v1/locks/b"
	holder = send(t, "POST", other, `{"ttl": "1m"}`)
	holder.want(t, 200, "held")
	busy := send(t, "POST", other, `{"wait": "50ms"}`, keyed("other")...)
	busy.want(t, 409, "busy")
	if r := send(t, "GET", base+"/v1/queues/b", ""); len(r.Claims) != 1 {
		t.Errorf("the place stays: %s", strings.TrimSpace(r.text))
	}
}

// unjoined is an engine that answers no Join, and knows no claim.
type unjoined struct {
	engine.Engine
	joins atomic.Int32
}

func (u *unjoined) Join(context.Context, engine.Request) (engine.Claim, error) {
	u.joins.Add(1)
	return engine.Claim{}, errors.New("the store does not answer")
}

// A request that was never answered has lost nothing when its server ends.
func TestAServerThatDrainsCallsNothingLostThatWasNotAnswered(t *testing.T) {
	u := &unjoined{Engine: store(t).Engine()}
	s, base := plainly(t, u, nil)
	ended := make(chan reply, 1)
	go func() {
		r, err := try(t.Context(), "POST", base+"/v1/locks/a", `{"wait": "20s"}`, keyed("key")...)
		if err != nil {
			r.text = err.Error()
		}
		ended <- r
	}()
	until(t, "it does not ask", func() bool { return u.joins.Load() > 0 })
	s.Drain()
	if r := <-ended; r.status != 503 {
		t.Errorf("%d %s, want 503", r.status, r.text)
	}
}

// A key that comes again after a release makes another lock, with the same ID. The handle of
// the first one is no handle of that.
func TestAnOldHandleEndsNoLaterLockOfItsKey(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	at := base + "/v1/locks/a"
	first := send(t, "POST", at, `{}`, keyed("key")...)
	first.want(t, 200, "held")
	released := send(t, "DELETE", at, ``, bearer(first)...)
	released.want(t, 200, "released")
	second := send(t, "POST", at, `{}`, keyed("key")...)
	second.want(t, 200, "held")
	late := send(t, "DELETE", at, ``, bearer(first)...)
	if late.want(t, 410, "lost"); late.Reason != "ended" {
		t.Error(late.text)
	}
	kept := send(t, "PUT", at, ``, bearer(second)...)
	kept.want(t, 200, "held")
}

// A key belongs to one kind of lock. A shared one that is asked for as an exclusive one is not
// exclusive.
func TestAKeyIsOfOneKindOfLock(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	at := base + "/v1/locks/a"
	shared := send(t, "POST", at, `{"shared": true}`, keyed("key")...)
	shared.want(t, 200, "held")
	other := send(t, "POST", at, `{"shared": true}`)
	other.want(t, 200, "held")
	for _, body := range []string{`{}`, `{"wait": "10s"}`, `{"permits": 2, "of": 3}`} {
		if r := send(t, "POST", at, body, keyed("key")...); r.status != 400 || !strings.Contains(r.Error, "key") {
			t.Errorf("%s: %d %s", body, r.status, r.text)
		}
	}
	again := send(t, "POST", at, `{"shared": true}`, keyed("key")...)
	if again.want(t, 200, "held"); again.Token != shared.Token {
		t.Error(again.text)
	}
}

// A handle is worth its own claim. Its form alone, which anybody can write, opens nothing else.
func TestTheFormOfAHandleOpensNothing(t *testing.T) {
	_, line := NewToken()
	_, base := plainly(t, store(t).Engine(), &Options{Access: access(t, "a "+line+" lock,look *")})
	for _, at := range []string{
		"POST /v1/locks/a", "GET /v1/queues", "GET /v1/queues/a", "GET /v1/why/a", "GET /v1/watch", "POST /v1/revoke", "GET /metrics", "GET /v1/locks/a",
		"POST " + remote.PathOpen, "POST " + remote.PathQueues, "POST " + remote.PathCheck, "POST " + remote.PathWatch,
	} {
		method, path, _ := strings.Cut(at, " ")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a watch that is let in does not end
		if r, err := try(ctx, method, base+path, `{}`, "Authorization", "Bearer "+handlePrefix+"x"); err != nil || r.status != 401 {
			t.Errorf("%s: %d %s %v", at, r.status, r.text, err)
		}
		cancel()
	}
}

// What a client of httplock calls itself is kept with each of its claims.
func TestAClientHasAShortName(t *testing.T) {
	s, base := plainly(t, store(t).Engine(), nil)
	long := strings.Repeat("x", 1<<20)
	id := engine.NewID().Secret()
	for path, call := range map[string]string{
		remote.PathJoin:  fmt.Sprintf(`{"client": %q, "name": "a", "id": %q, "permits": 1, "limit": 1, "wait_ttl": 1000000000}`, long, id),
		remote.PathRenew: fmt.Sprintf(`{"client": %q, "items": [{"name": "a", "id": %q, "want": 1000000000}]}`, long, id),
		remote.PathWatch: fmt.Sprintf(`{"client": %q}`, long),
	} {
		if r := send(t, "POST", base+path, call); r.status != http.StatusBadRequest {
			t.Errorf("%s: %d %.100s", path, r.status, r.text)
		}
	}
	if st := s.Stats(); st.Claims != 0 {
		t.Errorf("%d claims are known", st.Claims)
	}
}

// A file is written in steps. Who reads it in between finds fewer callers than there are.
func TestAListThatIsBeingWrittenIsNotRead(t *testing.T) {
	t.Parallel()
	token, line := NewToken()
	a := access(t, "a "+line+" lock,look *")
	_, base := plainly(t, store(t).Engine(), &Options{Access: a})
	auth := []string{"Authorization", "Bearer " + token}
	time.Sleep(recheck + 100*time.Millisecond)
	if err := os.WriteFile(a.file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	answered, writer := make(chan struct{}), sync.WaitGroup{}
	writer.Go(func() { // it goes on, however late the request is
		tick := time.NewTicker(settled / 50)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				now := time.Now() // the tick itself may be an old one
				if err := os.Chtimes(a.file, now, now); err != nil {
					t.Error(err)
				}
			case <-answered:
				return
			}
		}
	})
	defer func() { close(answered); writer.Wait() }()
	if r := send(t, "GET", base+"/v1/queues", ``, auth...); r.status != 200 {
		t.Errorf("in the middle of a change: %d %s", r.status, r.text)
	}
}

// A watch ends with the right to it.
func TestAWatchEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	token, line := NewToken()
	a := access(t, "a "+line+" lock,look *")
	_, base := plainly(t, store(t).Engine(), &Options{Access: a})
	auth := []string{"Authorization", "Bearer " + token}
	ended := make(chan struct{}, 2)
	for at, body := range map[string]string{"GET /v1/watch": ``, "POST " + remote.PathWatch: `{"client": "x"}`} {
		method, path, _ := strings.Cut(at, " ")
		go func() {
			try(t.Context(), method, base+path, body, auth...)
			ended <- struct{}{}
		}()
	}
	if err := os.WriteFile(a.file, []byte("# nobody"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Fatal("it goes on")
		}
	}
}

// A claim can be asked for in both ways at once: by its key, and with its handle by httplock.
// Nothing of it is kept when both have ended.
func TestAClaimOfTwoWaysIsForgotten(t *testing.T) {
	t.Parallel()
	s, base := plainly(t, store(t).Engine(), nil)
	holder := send(t, "POST", base+"/v1/locks/a", `{}`)
	for i, first := range []bool{true, false} {
		id := idOf(&caller{}, "a", keyed(fmt.Sprint(i))[1])
		renew := func() {
			send(t, "POST", base+remote.PathRenew, fmt.Sprintf(`{"client": "x", "items": [{"name": "a", "id": %q, "want": 1000000000}]}`, id.Secret()))
		}
		var all sync.WaitGroup
		if first {
			s.expect(&caller{name: "127.0.0.1"}, "x", place{"a", id}, time.Hour, false)
		}
		all.Go(func() { try(t.Context(), "POST", base+"/v1/locks/a", `{"wait": "8s"}`, keyed(fmt.Sprint(i))...) })
		until(t, "it does not wait", func() bool { return s.Stats().Waiting == 1 })
		if !first {
			until(t, "it has no place", func() bool { return len(send(t, "GET", base+"/v1/queues/a", "").Claims) == 2 })
			renew()
		}
		all.Wait()
		s.hub.forget(place{"a", id}) // as its end does
		if s.hub.knows(place{"a", id}) {
			t.Errorf("%v: it is known", first)
		}
		until(t, "it still counts", func() bool {
			s.usage.mu.Lock()
			defer s.usage.mu.Unlock()
			u := s.usage.by["127.0.0.1"]
			return u == nil || u.claims == 0
		})
	}
	send(t, "DELETE", base+"/v1/locks/a", ``, bearer(holder)...)
	until(t, "claims stay", func() bool { return s.Stats().Claims == 0 })
}

// A name that a path cannot have stands in the query or in the body, and they agree.
func TestTheNameStandsInTheQuery(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	held := send(t, "POST", base+"/v1/locks?name=../a//b", `{}`)
	if held.want(t, 200, "held"); held.Name != "../a//b" {
		t.Error(held.text)
	}
	for _, path := range []string{"/v1/locks/a?name=b", "/v1/locks?name=b"} {
		if r := send(t, "POST", base+path, `{"name": "c"}`); r.status != 400 {
			t.Errorf("POST %s: %d %s", path, r.status, r.text)
		}
		if r := send(t, "DELETE", base+path, ``, bearer(held)...); r.status != 400 {
			t.Errorf("DELETE %s: %d %s", path, r.status, r.text)
		}
	}
	released := send(t, "DELETE", base+"/v1/locks?name=../a//b", ``, bearer(held)...)
	released.want(t, 200, "released")
}

// Who loses the right to a name while waiting for it does not obtain it: the next one does.
func TestAWaitEndsWithTheRightToIt(t *testing.T) {
	t.Parallel()
	token, line := NewToken()
	other, otherLine := NewToken()
	lines := "b " + otherLine + " lock,look *\n"
	a := access(t, "a "+line+" lock,look *\n"+lines)
	_, base := plainly(t, store(t).Engine(), &Options{Access: a})
	at := base + "/v1/locks/n"
	first, second := []string{"Authorization", "Bearer " + token}, []string{"Authorization", "Bearer " + other}
	holder := send(t, "POST", at, `{"ttl": "1m"}`, second...)
	holder.want(t, 200, "held")
	answers := make(chan reply, 2)
	for _, headers := range [][]string{first, append(keyed("key"), first...)} {
		go func() {
			r, err := try(t.Context(), "POST", at, `{"wait": "25s"}`, headers...)
			if err != nil {
				t.Error(err)
			}
			answers <- r
		}()
	}
	until(t, "nobody waits", func() bool { return len(send(t, "GET", base+"/v1/queues/n", "", second...).Claims) == 3 })
	if err := os.WriteFile(a.file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "the list is not read", func() bool {
		return send(t, "GET", base+"/v1/queues/n", "", first...).status == http.StatusUnauthorized
	})
	released := send(t, "DELETE", at, ``, bearer(holder)...)
	released.want(t, 200, "released")
	for range 2 {
		if r := <-answers; r.status != http.StatusForbidden {
			t.Errorf("%d %s", r.status, r.text)
		}
	}
	next := send(t, "POST", at, `{"wait": "20s"}`, second...)
	next.want(t, 200, "held")
}

// Who loses the right while the engine is away obtains nothing when it comes back.
func TestAWaitForAnEngineThatIsAwayEndsWithTheRight(t *testing.T) {
	t.Parallel()
	token, line := NewToken()
	a := access(t, "a "+line+" lock *\n")
	u := &unjoined{Engine: store(t).Engine()}
	_, base := plainly(t, u, &Options{Access: a})
	answer := make(chan reply, 1)
	go func() {
		r, err := try(t.Context(), "POST", base+"/v1/locks/n", `{"wait": "25s"}`, "Authorization", "Bearer "+token)
		if err != nil {
			t.Error(err)
		}
		answer <- r
	}()
	until(t, "it does not ask", func() bool { return u.joins.Load() > 0 })
	if err := os.WriteFile(a.file, []byte("# nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := <-answer; r.status != http.StatusForbidden {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// A HEAD of what goes on for ever ends: the caller sees a whole answer, and sends the next request on
// the same connection.
func TestAHeadOfAStreamEnds(t *testing.T) {
	t.Parallel()
	at, _ := run(t, server(t, nil), "127.0.0.1:0", RunOptions{})
	for _, path := range []string{"/v1/watch", "/ui/events"} {
		c, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(30 * time.Second))
		answers := bufio.NewReader(c)
		for _, request := range []string{"HEAD " + path, "GET /livez"} {
			io.WriteString(c, request+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
			r, err := http.ReadResponse(answers, &http.Request{Method: request[:strings.Index(request, " ")]})
			if err != nil {
				t.Fatalf("%s after HEAD %s: %v", request, path, err)
			}
			if r.StatusCode != 200 {
				t.Errorf("%s: %s", request, r.Status)
			}
		}
	}
}

// Names that a caller may neither look at nor lock are hidden where they are what another holds, too.
func TestHeldNamesThatACallerMayNotSeeAreHidden(t *testing.T) {
	looking, one := NewToken()
	locking, two := NewToken()
	stored := store(t)
	_, base := plainly(t, stored.Engine(), &Options{Access: access(t, "looks "+one+" look a/", "locks "+two+" lock b/")})
	e := stored.Engine()
	for _, name := range []string{"a/1", "b/1"} {
		q := engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Minute, Owner: engine.Owner{
			Holds: []engine.Hold{{Name: "a/2", Ticket: 1}, {Name: "b/2", Ticket: 1}, {Name: "hidden", Ticket: 1}},
		}}
		if c, err := e.Join(t.Context(), q); err != nil || c.State != engine.Held {
			t.Fatal(c, err)
		}
	}
	for at, body := range map[string]string{
		"GET /v1/queues": ``, "GET /v1/queues/a/1": ``, "GET /v1/queues?name=a/1": ``, "GET /v1/watch": ``,
		"GET /v1/why/b/1": ``, "POST /v1/locks/b/1": `{"wait": "0s"}`, "POST " + remote.PathQueues: `{}`, "POST " + remote.PathQueue: `{"name": "a/1"}`,
	} {
		t.Run(at, func(t *testing.T) {
			method, path, _ := strings.Cut(at, " ")
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			q, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			token := looking
			if strings.HasSuffix(path, "b/1") {
				token = locking
			}
			q.Header.Set("Authorization", "Bearer "+token)
			a, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			var text []byte
			for lines := bufio.NewScanner(a.Body); lines.Scan(); {
				text = append(append(text, lines.Bytes()...), '\n')
				if strings.HasSuffix(path, "watch") && bytes.Contains(text, []byte("/2")) && bytes.HasSuffix(text, []byte("\n\n")) {
					break // it does not end, and this event has
				}
			}
			if strings.Contains(string(text), "hidden") {
				t.Errorf("%d %s", a.StatusCode, text)
			}
			if !strings.Contains(string(text), "/2") && !strings.Contains(path, "why") {
				t.Errorf("void: it shows nothing that is held: %d %s", a.StatusCode, text)
			}
		})
	}
}
