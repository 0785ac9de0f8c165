package service

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

// tofuClient is one run of OpenTofu as a Server meets it: the requests that the http backend makes.
type tofuClient struct {
	t       testing.TB
	url     string
	headers []string
	info    string // LockInfo
}

func newTofuClient(t testing.TB, url, id string, headers ...string) *tofuClient {
	return &tofuClient{t, url, headers, fmt.Sprintf(`{"ID":%q,"Operation":"OperationTypeApply","Info":"","Who":"ann@build-7","Version":"1.12.6","Created":"2026-11-25T22:30:00.5Z","Path":""}`, id)}
}

func (r *tofuClient) send(method, body string, status int) (info lockInfo) {
	r.t.Helper()
	a := send(r.t, method, r.url, body, r.headers...)
	if a.status != status {
		r.t.Fatalf("%s %s: %d %s, want %d", method, r.url, a.status, a.text, status)
	}
	if err := json.Unmarshal([]byte(a.text), &info); err != nil {
		r.t.Fatal(err)
	}
	return info
}

func (r *tofuClient) lock(status int) lockInfo { r.t.Helper(); return r.send("LOCK", r.info, status) }
func (r *tofuClient) unlock(status int) lockInfo {
	r.t.Helper()
	return r.send("UNLOCK", r.info, status)
}

// force is what force-unlock sends: nothing but the ID is filled in.
func (r *tofuClient) force(id string, status int) lockInfo {
	r.t.Helper()
	return r.send("UNLOCK", fmt.Sprintf(`{"ID":%q,"Operation":"","Info":"","Who":"","Version":"","Created":"0001-01-01T00:00:00Z","Path":""}`, id), status)
}

// basic is how the http backend sends username and password.
func basic(token string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:"+token))}
}

// tofuAccess writes a file of Access. Each line has %s for the credential of a token.
func tofuAccess(t testing.TB, lines ...string) (a *Access, tokens []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "access")
	var text string
	for _, line := range lines {
		token, credential := NewToken()
		tokens = append(tokens, token)
		text += fmt.Sprintf(line, credential) + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := LoadAccess(file)
	if err != nil {
		t.Fatal(err)
	}
	return a, tokens
}

func TestTofuLocksAndUnlocks(t *testing.T) {
	st := store(t)
	_, one := plainly(t, st.Engine(), nil)
	_, two := plainly(t, st.Engine(), nil)
	a := newTofuClient(t, one+"/v1/tofu/prod/network?ttl=2h", "aaaa")
	b := newTofuClient(t, two+"/v1/tofu/prod/network?ttl=2h", "bbbb")
	a.lock(200)
	a.lock(200) // the answer was lost
	held := b.lock(423)
	if held.ID != "aaaa" || held.Who != "ann@build-7" || held.Operation != "OperationTypeApply" || held.Version != "1.12.6" || held.Created.Format(time.RFC3339Nano) != "2026-11-25T22:30:00.5Z" || held.Path != "prod/network" {
		t.Errorf("who holds it: %+v", held)
	}
	if !strings.Contains(held.Info, "locked by 127.0.0.1") || !strings.Contains(held.Info, "ends by itself within 2h0m0s") && !strings.Contains(held.Info, "ends by itself within 1h59m") {
		t.Errorf("what is said of it: %q", held.Info)
	}
	(&tofuClient{t, two + "/v1/tofu?name=prod/network", nil, a.info}).unlock(200) // by another Server, and another way to say the name
	a.unlock(410)
	b.lock(200)
	if other := a.unlock(409); other.ID != "bbbb" {
		t.Errorf("who holds it since: %+v", other)
	}
	b.unlock(200)
}

// The methods that GitLab's states have, and others that can be chosen.
func TestTofuMethods(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	for _, lock := range []string{"LOCK", "POST", "PUT"} {
		for _, unlock := range []string{"UNLOCK", "DELETE"} {
			a := newTofuClient(t, base+"/v1/tofu/a", lock+unlock)
			a.send(lock, a.info, 200)
			newTofuClient(t, base+"/v1/tofu/a", "other").lock(423)
			a.send(unlock, a.info, 200)
		}
	}
	if r := send(t, "GET", base+"/v1/tofu/a", ""); r.status != 405 {
		t.Errorf("a state was asked for: %d, want 405", r.status)
	}
}

// A run that was killed never unlocks, and one that goes on for longer than its TTL has no
// lock any more. It is told so at its end.
func TestTofuRunOutlivesItsTTL(t *testing.T) {
	t.Parallel()
	_, base := plainly(t, store(t).Engine(), nil)
	a := newTofuClient(t, base+"/v1/tofu/a?ttl=5s", "aaaa")
	b := newTofuClient(t, base+"/v1/tofu/a?ttl=1h", "bbbb")
	a.lock(200)
	b.lock(423)
	until(t, "the lock never ended", func() bool { return send(t, "LOCK", b.url, b.info).status == 200 })
	if holder := a.unlock(409); holder.ID != "bbbb" {
		t.Errorf("who holds it since: %+v", holder)
	}
	a.lock(423) // its unlocking has touched nobody else
	b.unlock(200)
	a.unlock(410)
}

func TestTofuDefaultTTL(t *testing.T) {
	t.Parallel()
	st := store(t)
	_, base := plainly(t, st.Engine(), nil)
	newTofuClient(t, base+"/v1/tofu/a", "aaaa").lock(200)
	q := send(t, "GET", base+"/v1/queues/a", "")
	var claims struct {
		Claims []struct {
			TTL float64 `json:"ttl_seconds"`
		}
	}
	if json.Unmarshal([]byte(q.text), &claims); len(claims.Claims) != 1 || claims.Claims[0].TTL > 3600 || claims.Claims[0].TTL < 3000 {
		t.Errorf("the queue: %s", q.text)
	}
}

func TestTofuForceUnlock(t *testing.T) {
	t.Parallel()
	known, tokens := tofuAccess(t, "one %s lock *", "two %s lock *", "admin %s revoke *", "stranger %s lock other/")
	_, base := plainly(t, store(t).Engine(), &Options{Access: known})
	url := base + "/v1/tofu/a"
	one, two, admin, stranger := newTofuClient(t, url, "aaaa", basic(tokens[0])...), newTofuClient(t, url, "bbbb", basic(tokens[1])...),
		newTofuClient(t, url, "cccc", basic(tokens[2])...), newTofuClient(t, url, "dddd", basic(tokens[3])...)
	one.lock(200)
	id := two.lock(423).ID
	two.force(id, 403) // everybody sees the ID
	two.send("UNLOCK", one.info, 403)
	stranger.force(id, 403)
	stranger.lock(403)
	admin.lock(403)
	two.lock(423)
	admin.force("another", 409)
	admin.force(id, 200)
	admin.force(id, 410)
	one.unlock(410) // and it had gone on to write
	two.lock(200)
	if holder := one.unlock(409); holder.ID != "bbbb" || !strings.Contains(holder.Info, "locked by two") {
		t.Errorf("who holds it since: %+v", holder)
	}
	two.force("bbbb", 200) // its own needs no right
	one.lock(200)
	if stranger.send("UNLOCK", one.info, 403); two.lock(423).ID != "aaaa" {
		t.Error("it was unlocked")
	}
}

// Without Access everybody may.
func TestTofuForceUnlockWithoutAccess(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	newTofuClient(t, base+"/v1/tofu/a", "aaaa").lock(200)
	newTofuClient(t, base+"/v1/tofu/a", "").force("aaaa", 200)
	newTofuClient(t, base+"/v1/tofu/a", "bbbb").lock(200)
}

// A holder that is no run of OpenTofu is shown, and its ticket is its ID.
func TestTofuMeetsOtherHolders(t *testing.T) {
	t.Parallel()
	_, base := plainly(t, store(t).Engine(), nil)
	held := send(t, "POST", base+"/v1/locks/a", `{"label": "backup\u001b[31m", "ttl": "1m"}`)
	held.want(t, 200, "held")
	a := newTofuClient(t, base+"/v1/tofu/a", "aaaa")
	holder := a.lock(423)
	if holder.ID != send(t, "GET", base+"/v1/queues/a", "").Claims[0].Ticket || !strings.Contains(holder.Who, "backup") || !strings.Contains(holder.Info, "unless it is renewed") {
		t.Errorf("the holder: %+v", holder)
	}
	if strings.ContainsRune(holder.Who, 0x1b) {
		t.Errorf("it reaches a terminal: %q", holder.Who)
	}
	a.unlock(409)
	a.force(holder.ID, 200)
	a.lock(200)
	lost := send(t, "PUT", base+"/v1/locks/a", "", bearer(held)...)
	lost.want(t, 410, "lost")

	permits := send(t, "POST", base+"/v1/locks/p", `{"permits": 1, "of": 4}`)
	permits.want(t, 200, "held")
	newTofuClient(t, base+"/v1/tofu/p", "pppp").lock(423)
}

// A label that only looks like a LockInfo makes nobody's terminal dance, and is worth no more
// than its own claim.
func TestTofuForgedLabels(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	for i, label := range []string{`tofu {"ID":"x\u001b[2J","Who":"\u202eroot"}`, `tofu {"ID":""}`, `tofu {`, `tofu 7`, `tofu null`} {
		url := fmt.Sprint(base, "/v1/tofu/", i)
		text, _ := json.Marshal(map[string]any{"label": label, "name": fmt.Sprint(i)})
		held := send(t, "POST", base+"/v1/locks", string(text))
		held.want(t, 200, "held")
		a := newTofuClient(t, url, "aaaa")
		holder := a.lock(423)
		if holder.ID == "" || strings.ContainsAny(holder.ID+holder.Who, "\x1b\u202e") {
			t.Errorf("%s: %+v", label, holder)
		}
		a.force(holder.ID, 200)
	}
}

// What is too long for the queue is cut; who holds it stays readable.
func TestTofuLongLockInfo(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	for i, long := range []string{strings.Repeat("x", 5000), strings.Repeat(`"\<é`, 400), strings.Repeat("\x01", 300)} {
		info := lockInfo{ID: fmt.Sprint("run-", i), Operation: "apply", Who: "ann", Info: long, Path: long, Created: time.Now().UTC()}
		text, _ := json.Marshal(info)
		url := fmt.Sprint(base, "/v1/tofu/", i)
		a := &tofuClient{t, url, nil, string(text)}
		a.lock(200)
		got := newTofuClient(t, url, "bbbb").lock(423)
		if got.ID != info.ID || got.Who != "ann" || got.Operation != "apply" || !got.Created.Equal(info.Created) || got.Path == long {
			t.Errorf("of %.20q: %+v", long, got)
		}
		a.unlock(200)

		info.Who, info.Operation, info.Version = long, long, long
		text, _ = json.Marshal(info)
		a.info = string(text)
		a.lock(200)
		if got := newTofuClient(t, url, "bbbb").lock(423); got.ID != info.ID || !got.Created.Equal(info.Created) {
			t.Errorf("of %.20q everywhere: %+v", long, got)
		}
		a.unlock(200)
	}
	for _, n := range []int{1, 10, 100, 1000} {
		for _, text := range []string{strings.Repeat("é", 400), strings.Repeat("x", 300)} {
			if got := shorten(text, n); len(got) > max(0, len(text)-n) || strings.Contains(got, "\ufffd") || !strings.HasPrefix(text, strings.TrimSuffix(got, "…")) {
				t.Errorf("shorten by %d: %q", n, got)
			}
		}
	}
}

// HTTP Basic is known on this path, and nowhere else.
func TestTofuTokens(t *testing.T) {
	known, tokens := tofuAccess(t, "one %s lock,look *", "two %s lock,look *")
	s, base := plainly(t, store(t).Engine(), &Options{Access: known})
	right := basic(tokens[0])
	newTofuClient(t, base+"/v1/tofu/a", "aaaa", right...).lock(200)
	newTofuClient(t, base+"/v1/tofu/a", "aaaa", "Authorization", "Bearer "+tokens[0]).unlock(200) // OpenTofu's headers
	newTofuClient(t, base+"/v1/tofu?name=b", "aaaa", right...).lock(200)
	newTofuClient(t, base+"/v1/tofu/c", "aaaa", right...).lock(200)
	newTofuClient(t, base+"/v1/tofu/c", "aaaa", basic(tokens[1])...).lock(423) // the ID alone is not its claim
	newTofuClient(t, base+"/v1/tofu/a", "aaaa").lock(401)
	newTofuClient(t, base+"/v1/tofu/a", "aaaa", basic(tokens[0]+"x")...).lock(401)
	newTofuClient(t, base+"/v1/tofu/a", "aaaa", basic("")...).lock(401)
	newTofuClient(t, base+"/v1/tofu/a", "aaaa", basic(handlePrefix+"x")...).lock(401)
	for _, path := range []string{"/v1/queues", "/v1/tofu2", "/v1/locks/../tofu/a"} {
		if r := send(t, "GET", base+path, "", right...); r.status != 401 {
			t.Errorf("%s with Basic: %d, want 401", path, r.status)
		}
	}

	// A certificate alone has no secret of which an ID could be made that others cannot make.
	q, _ := http.NewRequest("LOCK", "/v1/tofu/a", strings.NewReader(`{"ID":"aaaa"}`))
	q.SetPathValue("name", "a")
	w := httptest.NewRecorder()
	s.tofuLock(w, q.WithContext(withCaller(t.Context(), &caller{name: "mtls", common: "mtls", verbs: []Verb{Lock}, prefixes: []string{"*"}})))
	if w.Code != 401 {
		t.Errorf("a certificate alone: %d, want 401", w.Code)
	}
}

func TestTofuBadRequests(t *testing.T) {
	_, base := plainly(t, store(t).Engine(), nil)
	good := `{"ID":"aaaa","New":"a field of a later version"}`
	for what, c := range map[string]struct{ path, body, says string }{
		"no body":               {"/v1/tofu/a", ``, "LockInfo"},
		"no JSON":               {"/v1/tofu/a", `hello`, "LockInfo"},
		"no ID":                 {"/v1/tofu/a", `{"Who":"me"}`, "ID"},
		"a long ID":             {"/v1/tofu/a", `{"ID":"` + strings.Repeat("x", maxTofuID+1) + `"}`, "ID"},
		"an ID for terminals":   {"/v1/tofu/a", `{"ID":"\u001b[31m"}`, "printed"},
		"a time that is none":   {"/v1/tofu/a", `{"ID":"a","Created":"yesterday"}`, "LockInfo"},
		"a time before year 0":  {"/v1/tofu/a", `{"ID":"a","Created":"-001-01-01T00:00:00Z"}`, "LockInfo"},
		"a large body":          {"/v1/tofu/a", `{"ID":"a","Info":"` + strings.Repeat("x", maxBody) + `"}`, "LockInfo"},
		"no name":               {"/v1/tofu", good, "empty"},
		"two names":             {"/v1/tofu/a?name=b", good, "different names"},
		"a TTL without unit":    {"/v1/tofu/a?ttl=5", good, "30s"},
		"a TTL that is long":    {"/v1/tofu/a?ttl=48h", good, "outside"},
		"an unknown word":       {"/v1/tofu/a?tll=2h", good, "tll"},
		"a query that is none":  {"/v1/tofu/a?%zz", good, "query"},
		"an empty segment":      {"/v1/tofu/a//b", good, "%2F"},
		"a name that is no UTF": {"/v1/tofu/%ff", good, "UTF-8"},
	} {
		for _, method := range []string{"LOCK", "UNLOCK"} {
			if r := send(t, method, base+c.path, c.body); r.status != 400 || !strings.Contains(r.Error, c.says) {
				t.Errorf("%s, %s: %d %s, want 400 that says %q", what, method, r.status, r.text, c.says)
			}
		}
	}
	if r := send(t, "LOCK", base+"/v1/tofu/a%2F..%2Fb", good); r.status != 200 {
		t.Errorf("a later version: %d %s", r.status, r.text)
	}
}

// An address without a TTL has one of an hour, or the service refuses to lock: a run that is
// protected for less than it was told would not learn of that before its end.
func TestTofuHasAnHourOrIsRefused(t *testing.T) {
	e := store(t).Engine()
	short := e.Guarantees()
	short.MaxTTL = time.Minute
	_, base := plainly(t, &limping{Engine: e, grants: short}, nil)
	good := `{"ID":"aaaa"}`
	for at, status := range map[string]int{"/v1/tofu/a": 400, "/v1/tofu/a?ttl=2m": 400, "/v1/tofu/a?ttl=1m": 200} {
		if r := send(t, "LOCK", base+at, good); r.status != status || status == 400 && !strings.Contains(r.Error, "above this engine's 1m0s") {
			t.Errorf("LOCK %s: %d %s, want %d", at, r.status, r.text, status)
		}
	}
	if r := send(t, "UNLOCK", base+"/v1/tofu/a", good); r.status != 200 { // it needs no TTL
		t.Errorf("UNLOCK: %d %s", r.status, r.text)
	}
}

// FuzzTofuInfo looks for a LockInfo that cannot be told to others.
func FuzzTofuInfo(f *testing.F) {
	f.Add("a", "apply", "ann@host", "more", "caller", "tofu {}")
	f.Add("\x7f", strings.Repeat("é", 2000), "\"\"\\", "<&>", strings.Repeat("c", 900), "tofu ")
	f.Fuzz(func(t *testing.T, id, operation, who, more, caller, label string) {
		sent, err := json.Marshal(lockInfo{ID: id, Operation: operation, Who: who, Info: more, Path: more})
		var call tofuCall
		if err != nil || call.read(strings.NewReader(string(sent))) != nil {
			return
		}
		o, err := call.info.owner(caller)
		if err != nil {
			t.Fatal(err)
		}
		if o.Fits() {
			back := engine.ParseOwner(o.Text())
			if got := infoOf("name", engine.Claim{Owner: back}); got.ID != call.info.ID {
				t.Errorf("the ID %q is told as %q", call.info.ID, got.ID)
			}
		} else if len(caller) < 100 {
			t.Errorf("the owner has %d bytes", len(o.Text()))
		}
		got := infoOf("name", engine.Claim{Owner: engine.Owner{Label: label}})
		if got.ID == "" || got.ID != printable(got.ID) || got.Who != printable(got.Who) {
			t.Errorf("%q is told as %+v", label, got)
		}
	})
}
