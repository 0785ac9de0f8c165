package service

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/httplock"
	"leasehold/internal/remote"
)

// access is a file with these lines, loaded.
func access(t testing.TB, lines ...string) *Access {
	t.Helper()
	file := filepath.Join(t.TempDir(), "access")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := LoadAccess(file)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWhatIsNoListOfCallersIsRefused(t *testing.T) {
	_, credential := NewToken()
	for text, says := range map[string]string{
		"":                            "",
		"# nobody":                    "",
		"a " + credential + " lock *": "",
		"a cert:billing look,lock x/ y/\nb " + credential + " revoke *": "",
		"a " + credential + " lock":                                     "NAME CREDENTIAL VERBS PREFIX",
		"a sha256:12 lock *":                                            "SHA-256",
		"a sha256:" + strings.Repeat("z", 64) + " lock *":               "SHA-256",
		"a secret:x lock *":                                             "unknown kind",
		"a cert: lock *":                                                "common name",
		"a " + credential + " lick *":                                   "known are lock, look, revoke",
		"a cert:x lock *\n\na cert:y lock *":                            "line 3",
	} {
		if err := CheckAccess(text); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// A caller has the rights of its line, for the names of its line, in every way in.
func TestCallersDoWhatTheyMay(t *testing.T) {
	locker, lockerLine := NewToken()
	looker, lookerLine := NewToken()
	boss, bossLine := NewToken()
	_, base := plainly(t, store(t).Engine(), &Options{Access: access(t,
		"locker "+lockerLine+" lock jobs/ other", "looker "+lookerLine+" look jobs/", "boss "+bossLine+" lock,look,revoke *")})
	as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	hidden := send(t, "POST", base+"/v1/locks/hidden", `{}`, as(boss)...)
	hidden.want(t, 200, "held")
	held := send(t, "POST", base+"/v1/locks/jobs/1", `{}`, as(locker)...)
	held.want(t, 200, "held")
	ticket := send(t, "GET", base+"/v1/queues/jobs/1", "", as(boss)...).Claims[0].Ticket
	revoke := fmt.Sprintf(`{"name": "jobs/1", "ticket": %q}`, ticket)
	for _, c := range []struct {
		what, method, path, body, token string
		status                          int
	}{
		{"nobody", "POST", "/v1/locks/jobs/2", `{}`, "", 401},
		{"a wrong token", "POST", "/v1/locks/jobs/2", `{}`, locker + "x", 401},
		{"another name", "POST", "/v1/locks/jobs", `{}`, locker, 403},
		{"a name that begins so", "POST", "/v1/locks/otherwise", `{}`, locker, 200},
		{"its own queue", "GET", "/v1/queues/jobs/1", ``, locker, 200},
		{"another queue", "GET", "/v1/queues/hidden", ``, locker, 403},
		{"why another", "GET", "/v1/why/hidden", ``, looker, 403},
		{"lock with look", "POST", "/v1/locks/jobs/2", `{}`, looker, 403},
		{"look", "GET", "/v1/queues/jobs/1", ``, looker, 200},
		{"revoke with lock", "POST", "/v1/revoke", revoke, locker, 403},
		{"revoke with look", "POST", "/v1/revoke", revoke, looker, 403},
		{"nobody sees whether it is alive", "GET", "/livez", ``, "", 200},
		{"nobody sees whether it is ready", "GET", "/readyz", ``, "", 200},
		{"nobody joins", "POST", "/v1/engine/join", `{}`, "", 401},
		{"a handle alone opens nothing", "GET", "/v1/queues/jobs/1", ``, held.Handle, 401},
		{"a handle keeps its claim", "PUT", "/v1/locks/jobs/1", ``, held.Handle, 200},
		{"revoke", "POST", "/v1/revoke", revoke, boss, 200},
	} {
		headers := as(c.token)
		if c.token == "" {
			headers = nil
		}
		if r := send(t, c.method, base+c.path, c.body, headers...); r.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.what, r.status, r.text, c.status)
		}
	}
	if r := send(t, "GET", base+"/v1/queues", "", as(looker)...); len(r.Queues) != 1 || r.Queues[0].Name != "jobs/1" {
		t.Errorf("a caller sees names that it may not look at: %s", r.text)
	}

	// The same by package httplock.
	url := "http://:%s@" + strings.TrimPrefix(base, "http://")
	e, err := httplock.Open(t.Context(), fmt.Sprintf(url, locker))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	id := engine.NewID()
	q := engine.Request{Name: "jobs/3", ID: id, Permits: 1, Limit: 1, WaitTTL: time.Minute}
	if c, err := e.Join(t.Context(), q); err != nil || c.State != engine.Held {
		t.Errorf("join: %v %v", c.State, err)
	}
	q.Name = "hidden"
	refused := func(what string, err error) {
		if _, is := err.(interface{ Unwrap() error }); err == nil || !is || !strings.Contains(err.Error(), "locker may not") {
			t.Errorf("%s: %v, want that it may not", what, err)
		}
	}
	_, err = e.Join(t.Context(), q)
	refused("join", err)
	got, err := e.Renew(t.Context(), []engine.Renewal{{Name: "hidden", ID: id, Want: time.Minute}, {Name: "jobs/3", ID: id, Want: time.Minute}})
	if refused("renew", err); len(got) != 1 || got[0].State != engine.Held {
		t.Errorf("renew: %+v", got)
	}
	_, err = e.Leave(t.Context(), []engine.Claim{{Name: "hidden", ID: id}})
	refused("leave", err)
	refused("revoke", e.Revoke(t.Context(), "jobs/3", 1, true))
	_, err = e.Queue(t.Context(), "hidden")
	refused("queue", err)
	for queue := range e.Queues(t.Context(), "") {
		t.Errorf("it sees %q", queue.Name)
	}
	if _, err := httplock.Open(t.Context(), fmt.Sprintf(url, "wrong")); err == nil || !strings.Contains(err.Error(), "does not know this token") {
		t.Errorf("a wrong token: %v", err)
	}
}

// Two callers with one key have two claims.
func TestAKeyIsItsCallersOwn(t *testing.T) {
	one, oneLine := NewToken()
	two, twoLine := NewToken()
	_, base := plainly(t, store(t).Engine(), &Options{Access: access(t, "one "+oneLine+" lock *", "two "+twoLine+" lock *")})
	for i, token := range []string{one, two} {
		r := send(t, "POST", base+"/v1/locks/a", `{}`, append(keyed("the same"), "Authorization", "Bearer "+token)...)
		r.want(t, []int{200, 409}[i], []string{"held", "busy"}[i])
	}
}

// The list shows the hash of each token, and a lock of OpenTofu its name and ID.
func TestTheListDoesNotSayTheIDsOfClaims(t *testing.T) {
	token, line := NewToken()
	list := access(t, "one "+line+" lock *")
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+token)
	who, err := list.caller(r)
	if err != nil {
		t.Fatal(err)
	}
	const name, key = "prod/network", "tofu\x00 of an ID that all see"
	reader := &caller{secret: list.known[0].hash}
	if idOf(reader, name, key) == idOf(who, name, key) {
		t.Error("whoever reads the list can compute the ID of a caller's claim, and end it")
	}
}

// A file that changes is read again, and one that cannot be read changes nothing.
func TestTheListOfCallersIsReadAgain(t *testing.T) {
	t.Parallel()
	token, line := NewToken()
	a := access(t, "a "+line+" lock x/")
	_, base := plainly(t, store(t).Engine(), &Options{Access: a})
	status := func() int {
		return send(t, "POST", base+"/v1/locks/y", `{}`, append(keyed("the same"), "Authorization", "Bearer "+token)...).status
	}
	if s := status(); s != 403 {
		t.Fatalf("before: %d", s)
	}
	write := func(text string) {
		if err := os.WriteFile(a.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a " + line + " lock x/ y")
	until(t, "the new line is not in force", func() bool { return status() == 200 })
	write("this is nothing")
	time.Sleep(recheck + 100*time.Millisecond)
	if s := status(); s != 200 {
		t.Errorf("with a broken file: %d", s)
	}
	write("")
	until(t, "a caller that was taken out goes on", func() bool { return status() == 401 })
}

// A greedy caller is refused in words, and another is served.
func TestAGreedyCallerHarmsNobody(t *testing.T) {
	t.Parallel()
	greedy, greedyLine := NewToken()
	modest, modestLine := NewToken()
	_, base := plainly(t, store(t).Engine(), &Options{
		Access: access(t, "greedy "+greedyLine+" lock,look *", "modest "+modestLine+" lock,look *"),
		Limits: Limits{Requests: 5, Claims: 3},
	})
	as := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	held := send(t, "POST", base+"/v1/locks/a", `{}`, as(modest)...)
	held.want(t, 200, "held")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { try(t.Context(), "POST", base+"/v1/locks/a", `{"wait": "20s"}`, as(greedy)...) })
	}
	until(t, "they do not wait", func() bool {
		return len(send(t, "GET", base+"/v1/queues/a", "", as(modest)...).Claims) == 4
	})
	if r := send(t, "POST", base+"/v1/locks/a", `{"wait": "20s"}`, as(greedy)...); r.status != 429 || !strings.Contains(r.Error, "3 claims") || r.header.Get("Retry-After") != "1" {
		t.Errorf("a fourth claim: %d %s", r.status, r.text)
	}
	for range 2 { // each until it is one of the five: the requests below count too, and may be there before it
		all.Go(func() {
			for ; t.Context().Err() == nil; time.Sleep(5 * time.Millisecond) {
				try(t.Context(), "GET", base+"/v1/watch", ``, as(greedy)...)
			}
		})
	}
	until(t, "it has no limit of requests", func() bool {
		r := send(t, "GET", base+"/v1/queues/a", ``, as(greedy)...)
		return r.status == 429 && strings.Contains(r.Error, "5 requests") && r.header.Get("Retry-After") != ""
	})
	if r := send(t, "POST", base+"/v1/locks/b", `{}`, as(modest)...); r.status != 200 {
		t.Errorf("another caller: %d %s", r.status, r.text)
	}
	// By package httplock, claims count until they are given back.
	e, err := httplock.Open(t.Context(), "http://:"+modest+"@"+strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	joined := func(name string, id engine.ID) error {
		_, err := e.Join(t.Context(), engine.Request{Name: name, ID: id, Permits: 1, Limit: 1, WaitTTL: time.Minute})
		return err
	}
	ids := []engine.ID{engine.NewID(), engine.NewID(), engine.NewID()}
	for i, id := range ids {
		for range 2 { // a repeated Join is the same claim
			if err := joined(fmt.Sprint("c", i), id); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := joined("c3", engine.NewID()); err == nil || !strings.Contains(err.Error(), "3 claims") {
		t.Errorf("a fourth claim: %v", err)
	}
	if _, err := e.Leave(t.Context(), []engine.Claim{{Name: "c0", ID: ids[0]}}); err != nil {
		t.Fatal(err)
	}
	if err := joined("c3", engine.NewID()); err != nil {
		t.Errorf("after a Leave: %v", err)
	}
	send(t, "DELETE", base+"/v1/locks/a", ``, bearer(held)...)
	t.Cleanup(all.Wait)
}

// The log names callers and paths, and nothing that authorises.
func TestTheLogHasNoSecrets(t *testing.T) {
	token, line := NewToken()
	var log bytes.Buffer
	var mu sync.Mutex
	handler := slog.NewTextHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug})
	s, base := plainly(t, store(t).Engine(), &Options{Access: access(t, "billing "+line+" lock,look,revoke *"), Log: slog.New(handler)})
	auth := []string{"Authorization", "Bearer " + token}
	held := send(t, "POST", base+"/v1/locks/a", `{}`, append(keyed("a key"), auth...)...)
	held.want(t, 200, "held")
	send(t, "PUT", base+"/v1/locks/a", ``, bearer(held)...)
	send(t, "POST", base+"/v1/locks/a", `{}`, "Authorization", "Bearer wrong-"+token)
	send(t, "POST", base+"/v1/revoke", `{"name": "a", "ticket": "7"}`, auth...)
	e, err := httplock.Open(t.Context(), "http://:"+token+"@"+strings.TrimPrefix(base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	id := engine.NewID()
	if _, err := e.Join(t.Context(), engine.Request{Name: "b", ID: id, Permits: 1, Limit: 1, WaitTTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	e.Close()
	s.Drain()
	mu.Lock()
	defer mu.Unlock()
	for what, secret := range map[string]string{"token": token, "handle": held.Handle, "claim ID": id.Secret(), "key": "a key-0123"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has a %s:\n%s", what, log.String())
		}
	}
	for _, want := range []string{"path=/v1/locks/a", "caller=billing", "status=401", "revoked"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log.String())
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(b)
}

// No limit refuses a renewal, or what makes room. What asks for a lifetime that nobody grants is
// no renewal, and is not kept.
func TestNoLimitRefusesARenewal(t *testing.T) {
	s, base := plainly(t, store(t).Engine(), &Options{Limits: Limits{Requests: 1}})
	at := base + "/v1/locks/a"
	held := send(t, "POST", at, `{"ttl": "1m"}`)
	held.want(t, 200, "held")
	tofu := newTofuClient(t, base+"/v1/tofu/b", "aaaa")
	tofu.lock(200)
	go try(t.Context(), "POST", at, `{"wait": "20s"}`)
	until(t, "it does not wait", func() bool { return s.Stats().Waiting == 1 }) // no request beside it, or the limit refuses it
	if r := send(t, "GET", base+"/v1/queues/a", ""); r.status != 429 {
		t.Errorf("the limit is not reached: %d %s", r.status, r.text)
	}
	kept := send(t, "PUT", at, "", bearer(held)...)
	kept.want(t, 200, "held")
	for _, item := range []string{
		`{"name": "a", "id": "%s", "want": 4611686018427387904}`, `{"name": "a", "id": "%s", "want": -1}`, `{"name": "a\u0000", "id": "%s", "want": 30000000000}`,
	} {
		body := fmt.Sprintf(`{"client": "c", "items": [`+item+`]}`, engine.NewID().Secret())
		if r := send(t, "POST", base+remote.PathRenew, body); r.status != 200 || !strings.Contains(r.text, "problem") {
			t.Errorf("%s: %d %s", body, r.status, r.text)
		}
	}
	s.hub.mu.Lock()
	known := 0
	for _, r := range s.hub.by {
		if r.over != nil {
			known++
		}
	}
	s.hub.mu.Unlock()
	if known != 0 {
		t.Errorf("%d claims that nobody has are kept", known)
	}
	tofu.unlock(200)
	freed := send(t, "DELETE", at, "", bearer(held)...)
	freed.want(t, 200, "released")
}
