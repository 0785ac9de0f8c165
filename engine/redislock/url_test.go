package redislock

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/servers"
)

func TestEveryURLForm(t *testing.T) {
	r := redis(t, &servers.RedisOptions{
		Password: "s:e@c/r?t", TLS: true,
		ACL: []string{"user app on >p%40ss ~* &* +@all"},
	})
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s:e@c/r?t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "s%3Ae%40c%2Fr%3Ft"
	tls := strings.Replace(r.TLSAddr, "127.0.0.1", "localhost", 1)
	for name, url := range map[string]string{
		"password":      "redis://:" + secret + "@" + r.Addr,
		"user":          "redis://app:p%2540ss@" + r.Addr,
		"database":      "redis://:" + secret + "@" + r.Addr + "/3",
		"db parameter":  "redis://:" + secret + "@" + r.Addr + "?db=3",
		"password file": "redis://" + r.Addr + "/?password-file=" + file,
		"valkey":        "valkey://:" + secret + "@" + r.Addr,
		"TLS":           "rediss://:" + secret + "@" + tls + "?ca=" + r.CAFile,
		"TLS by IP":     "rediss://:" + secret + "@" + r.TLSAddr + "?ca=" + r.CAFile,
		"socket":        "unix://:" + secret + "@" + r.Socket,
		"socket, db":    "redis+unix://:" + secret + "@" + r.Socket + "?db=3",
		"prefix":        "redis://:" + secret + "@" + r.Addr + "?prefix=app1:",
		"plain":         "redis://:" + secret + "@" + r.Addr + "?layout=plain&prefix=locks:",
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, url)
			c := join(t, e, exclusive("a"))
			if c.State != engine.Held {
				t.Fatalf("joined as %+v", c)
			}
			leave(t, e, c)
		})
	}
	keys := do(t, r, "KEYS", "*").([]any)
	for _, want := range []string{"app1:{ed}:a", "leasehold:{ed}:a"} {
		found := false
		for _, k := range keys {
			found = found || k == want
		}
		if !found {
			t.Errorf("no key %q among %v", want, keys)
		}
	}
}

func TestClientsShareLocksByDatabaseAndPrefix(t *testing.T) {
	r := redis(t, nil)
	a := open(t, "redis://"+r.Addr)
	join(t, a, exclusive("x"))
	for url, want := range map[string]engine.State{
		"redis://" + r.Addr:                         engine.Waiting,
		"unix://" + r.Socket:                        engine.Waiting,
		"redis://" + r.Addr + "?prefix=leasehold:":  engine.Waiting,
		"redis://" + r.Addr + "?prefix=other:":      engine.Held,
		"redis://" + r.Addr + "/1":                  engine.Held,
		"redis://" + r.Addr + "?layout=plain":       engine.Held,
		"redis://" + r.Addr + "?layout=lines&db=0":  engine.Waiting,
		"redis://" + r.Addr + "?allow-eviction=yes": 0,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		e, err := Open(ctx, url)
		cancel()
		if err != nil {
			if want != 0 {
				t.Errorf("%s: %v", url, err)
			}
			continue
		}
		if want == 0 {
			t.Errorf("%s was accepted", url)
		} else if c := join(t, e, exclusive("x")); c.State != want {
			t.Errorf("%s: %v, want %v", url, c.State, want)
		}
		e.Close()
	}
}

func TestBadURLs(t *testing.T) {
	for url, want := range map[string]string{
		"":                                   "not a Redis URL",
		"localhost:1234":                     "not a Redis URL",
		"http://localhost":                   "not a Redis URL",
		"redis://user:hunter2@h:99999":       "host:port",
		"redis://user:hunter2@h:port":        "host:port",
		"redis://user:hunter2@a,b":           "one host",
		"redis://user:hunter2@h/x":           "number of a database",
		"redis://user:hunter2@h/-1":          "number of a database",
		"redis://user@h":                     "without a password",
		"redis://user:hunter2%zz@h":          "%xx",
		"redis://user:hunter2@h?a=%zz":       "%xx",
		"redis://user:hunter2@h?hunter=1":    "unknown parameter",
		"redis://user:hunter2@h?layout=x":    "lines",
		"redis://user:hunter2@h?replicas=x":  "number",
		"unix://user:hunter2@":               "socket",
		"unix://host/path":                   "socket",
		"redis-sentinel://user:hunter2@h:1":  "primary's name",
		"redis-cluster://user:hunter2@h:1/2": "only database 0",
		"rediss://user:hunter2@h?ca=/absent": "certificate authority",
		"redis://h?password-file=/absent":    "password",
	} {
		_, err := Open(within(t), url)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the password is shown: %v", err)
		}
	}
}

func TestWrongServersAreNamed(t *testing.T) {
	r := redis(t, &servers.RedisOptions{Password: "right", TLS: true})
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := servers.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	shut := net.JoinHostPort("127.0.0.1", itoa(closed))
	for name, c := range map[string]struct{ url, want string }{
		"wrong password":          {"redis://:hunter2@" + r.Addr, "password is wrong"},
		"no password":             {"redis://" + r.Addr, "password is wrong or missing"},
		"wrong user":              {"redis://bob:hunter2@" + r.Addr, "password is wrong"},
		"no such database":        {"redis://:right@" + r.Addr + "/99", "DB index"},
		"a web server":            {"redis://:hunter2@" + web.Listener.Addr().String(), "not a Redis"},
		"nobody":                  {"redis://:hunter2@" + shut, "refused"},
		"no such socket":          {"unix://:hunter2@/nowhere/redis.sock", "no such file"},
		"unknown authority":       {"rediss://:right@" + r.TLSAddr, "?ca=file"},
		"TLS where there is none": {"rediss://:right@" + r.Addr + "?ca=" + r.CAFile, ""},
		"none where there is TLS": {"redis://:hunter2@" + r.TLSAddr, ""},
		"silence":                 {"redis://:hunter2@" + silent.Addr().String(), ""},
		"no Sentinel":             {"redis-sentinel://:right@" + r.Addr + "/main", ""},
		"no Cluster":              {"redis-cluster://:right@" + r.Addr, "luster"},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			e, err := Open(ctx, c.url)
			if err == nil {
				e.Close()
				t.Fatal("it was accepted")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %q, want %q", err, c.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is shown: %v", err)
			}
			if d := time.Since(start); d > 8*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestUnfitServersAreRefused(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		r := redis(t, &servers.RedisOptions{Args: []string{"--maxmemory", "50mb", "--maxmemory-policy", policy}})
		for _, layout := range []string{"lines", "plain"} {
			_, err := Open(within(t), "redis://"+r.Addr+"?layout="+layout)
			if err == nil || !strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), "allow-eviction") {
				t.Errorf("%s with %s: %v", layout, policy, err)
			}
			open(t, "redis://"+r.Addr+"?allow-eviction&layout="+layout)
		}
	}
	c := servers.RedisCluster(t, nil)
	if _, err := Open(within(t), "redis://"+c.Nodes[0].Addr); err == nil || !strings.Contains(err.Error(), "redis-cluster://") {
		t.Errorf("one node of a Cluster: %v", err)
	}
}

// TestForeignDataIsNotTouched finds data of every type where a line would be.
func TestForeignDataIsNotTouched(t *testing.T) {
	r := redis(t, nil)
	lines, plain := open(t, "redis://"+r.Addr), open(t, "redis://"+r.Addr+"?layout=plain")
	put := map[string][]string{
		"string": {"SET", "?", "v"}, "list": {"RPUSH", "?", "v"}, "set": {"SADD", "?", "v"},
		"zset": {"ZADD", "?", "1", "v"}, "hash": {"HSET", "?", "f", "v"}, "hash with m": {"HSET", "?", "m", "Snow"},
		"stream": {"XADD", "?", "1-1", "f", "v"},
	}
	for kind, args := range put {
		for layout, e := range map[string]engine.Engine{"lines": lines, "plain": plain} {
			if layout == "plain" && kind == "string" {
				continue // that is a lock
			}
			key := kind
			if x, ok := e.(*Engine); ok {
				key = x.key(kind)
			}
			args[1] = key
			do(t, r, args...)
			before := do(t, r, "DUMP", key)
			if c, err := e.Join(within(t), exclusive(kind)); err == nil || !strings.Contains(err.Error(), "not leasehold's") {
				t.Errorf("%s on a %s: Join: %+v %v", layout, kind, c, err)
			}
			id := engine.NewID()
			if cs, err := e.Renew(within(t), []engine.Renewal{{Name: kind, ID: id, Want: time.Second}}); err != nil || cs[0].State != engine.Gone {
				t.Errorf("%s on a %s: Renew: %v %v", layout, kind, cs, err)
			}
			if cs, err := e.Leave(within(t), []engine.Claim{{Name: kind, ID: id}}); err != nil || cs[0].State != engine.Gone {
				t.Errorf("%s on a %s: Leave: %v %v", layout, kind, cs, err)
			}
			if err := e.Evict(within(t), kind, 1, true); err == nil {
				t.Errorf("%s on a %s: Evict worked", layout, kind)
			}
			if _, err := e.Line(within(t), kind); err == nil || !strings.Contains(err.Error(), "not leasehold's") {
				t.Errorf("%s on a %s: Line: %v", layout, kind, err)
			}
			for l, err := range e.Lines(within(t), "") {
				if err != nil || l.Name == kind {
					t.Errorf("%s on a %s: Lines: %+v %v", layout, kind, l, err)
				}
			}
			if after := do(t, r, "DUMP", key); after != before {
				t.Errorf("%s on a %s: it was changed", layout, kind)
			}
			if ttl := do(t, r, "TTL", key).(int64); ttl != -1 {
				t.Errorf("%s on a %s: it was given an expiry", layout, kind)
			}
			do(t, r, "DEL", key)
		}
	}
}

// The ACLs of the package documentation, word for word.
const (
	lineACL  = "user app on >secret ~leasehold:* &leasehold:* +evalsha +eval +time +exists +hget +hmget +hgetall +hlen +hset +hdel +del +pexpireat +publish +subscribe +unsubscribe +scan +info +ping +hello +auth +select +wait"
	plainACL = "user plain on >secret ~* &leasehold:* +evalsha +eval +time +get +set +del +pttl +pexpire +hmget +hset +scan +info +ping +hello +auth +select"
)

func TestLeastPrivilege(t *testing.T) {
	r := redis(t, &servers.RedisOptions{ACL: []string{lineACL, plainACL}})
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(doc), "//", " ")), " ")
	for _, acl := range []string{lineACL, plainACL} {
		rules := acl[strings.Index(acl, "~"):]
		if !strings.Contains(text, rules) {
			t.Errorf("the documentation does not have the tested rules %q", rules)
		}
	}
	for _, url := range []string{"redis://app:secret@" + r.Addr, "redis://plain:secret@" + r.Addr + "?layout=plain"} {
		a, b := open(t, url), open(t, url)
		first := join(t, a, exclusive("x"))
		second := join(t, b, exclusive("x"))
		renew(t, a, first, time.Minute)
		if e, ok := b.(*Engine); ok {
			heard := watch(t, e)
			leave(t, a, first)
			expect(t, heard, func(c engine.Claim) bool { return c.ID == second.ID && c.State == engine.Held })
		} else {
			leave(t, a, first)
			renew(t, b, second, time.Minute)
		}
		third := join(t, a, exclusive("y"))
		if err := b.Evict(within(t), "y", third.Ticket, true); err != nil {
			t.Errorf("Evict: %v", err)
		}
		leave(t, a, third)
		if _, err := a.Line(within(t), "x"); err != nil {
			t.Errorf("Line: %v", err)
		}
		n := 0
		for _, err := range a.Lines(within(t), "") {
			if err != nil {
				t.Errorf("Lines: %v", err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d lines", n)
		}
	}
	// A second prefix is out of bounds, and says so.
	_, err = Open(within(t), "redis://app:secret@"+r.Addr+"?prefix=other:")
	if err == nil || !strings.Contains(err.Error(), "ACL") {
		t.Errorf("another prefix: %v", err)
	}
	// Every command granted is needed: no test above used one that is refused.
	log := do(t, r, "ACL", "LOG").([]any)
	for _, l := range log {
		if f := l.([]any); f[3] != "other:{" && !strings.Contains(toText(f), "other:") {
			t.Errorf("refused: %v", f)
		}
	}
}
