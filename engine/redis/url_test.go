package redis_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/redis"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/engine/redis/plainlock"
	"leasehold/engine/redis/queuelock"
	"leasehold/lab/servers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, redistest.Ignored(goleak.IgnoreAnyFunction)...)
}

var (
	within, exclusive, do = redistest.Within, redistest.Exclusive, redistest.Do
	join, leave           = redistest.Join, redistest.Leave
)

func open(t testing.TB, url string) engine.Engine {
	t.Helper()
	return redistest.Kit{Open: redis.Open}.Opened(t, url)
}

func TestEveryURLForm(t *testing.T) {
	r := servers.Redis(t, &servers.RedisOptions{
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
		"redisson":      "redisson://:" + secret + "@" + r.Addr + "?kind=fenced",
		"redisson, TLS": "redissons://:" + secret + "@" + tls + "?ca=" + r.CAFile,
		"redisson+unix": "Redisson+unix://:" + secret + "@" + r.Socket + "?kind=readwrite&watchdog=1m&db=5",
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
	r := servers.Redis(t, nil)
	a := open(t, "redis://"+r.Addr)
	join(t, a, exclusive("x"))
	for url, want := range map[string]engine.State{
		"redis://" + r.Addr:                         engine.Waiting,
		"unix://" + r.Socket:                        engine.Waiting,
		"redis://" + r.Addr + "?prefix=leasehold:":  engine.Waiting,
		"redis://" + r.Addr + "?prefix=other:":      engine.Held,
		"redis://" + r.Addr + "/1":                  engine.Held,
		"redis://" + r.Addr + "?layout=plain":       engine.Held,
		"redisson://" + r.Addr:                      engine.Held,
		"redis://" + r.Addr + "?layout=queues&db=0": engine.Waiting,
		"redis://" + r.Addr + "?allow-eviction=yes": 0,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		e, err := redis.Open(ctx, url)
		cancel()
		if err != nil {
			if want != 0 {
				t.Errorf("%s: %v", url, err)
			}
			continue
		}
		if want == 0 {
			t.Errorf("%s was accepted", url)
		} else {
			c := join(t, e, exclusive("x"))
			if c.State != want {
				t.Errorf("%s: %v, want %v", url, c.State, want)
			}
			leave(t, e, c) // the plain layout and Redisson's have one key for it
		}
		e.Close()
	}
}

// A user may have the password in a file.
func TestUserWithAPasswordFile(t *testing.T) {
	r := servers.Redis(t, &servers.RedisOptions{Password: "sesame"})
	dir := t.TempDir()
	for name, text := range map[string]string{"right": "sesame\n", "wrong": "hunter2", "empty": "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"right": "", "wrong": "password is wrong", "empty": "without a password"} {
		e, err := redis.Open(within(t), "redis://default@"+r.Addr+"?password-file="+filepath.Join(dir, name))
		if err == nil {
			e.Close()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestBadURLs(t *testing.T) {
	long := strings.Repeat("x", 129)
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
		"redis://user:hunter2@h?layout=x":    "use queues (the default) or plain",
		"redis://user:hunter2@h?replicas=x":  "number",
		"unix://user:hunter2@":               "socket",
		"unix://host/path":                   "socket",
		"redis-sentinel://user:hunter2@h:1":  "primary's name",
		"redis-cluster://user:hunter2@h:1/2": "only database 0",
		"rediss://user:hunter2@h?ca=/absent": "certificate authority",
		"redis://h?password-file=/absent":    "password",
		"redis://h?ca=/absent":               "ca= is for TLS",
		"valkey://h?cert=":                   "cert= is for TLS",
		"unix:///s?key=/absent":              "key= is for TLS",
		"redis-sentinel://h/p?ca=/absent":    "ca= is for TLS",
		"redis-cluster://h?ca=/absent":       "ca= is for TLS",
		"redisson://h?ca=/absent":            "ca= is for TLS",
		"redlock://a,b,c?ca=/absent":         "ca= is for TLS",
		"redisson:h":                         "another scheme",

		// Nobody listens there, so the error is of the URL.
		"redis://" + servers.Nobody + "?replicas=101":                   "outside 0 to 100",
		"redis://" + servers.Nobody + "?restart-delay=1ms":              "outside 1s to",
		"redis://" + servers.Nobody + "?prefix=" + long:                 "129 bytes",
		"redis://" + servers.Nobody + "?layout=plain&prefix=" + long:    "129 bytes",
		"redis://" + servers.Nobody + "?layout=plain&prefix={x}":        "brace",
		"redisson://" + servers.Nobody + "?kind=spin":                   "unknown",
		"redisson://" + servers.Nobody + "?kind=readwrite&watchdog=1ms": "outside",
		"redlock://a,b": "outside 3 to 15",
	} {
		_, opened := redis.Open(within(t), url)
		examined := redis.Examine(within(t), url, engine.ExamineOptions{}, func(engine.Finding) {})
		for by, err := range map[string]error{"Open": opened, "Examine": examined} {
			if !errors.Is(err, engine.ErrURL) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %q: %v, want an engine.ErrURL that says %q", by, url, err, want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the password is shown: %v", err)
			}
		}
	}
}

// New refuses what a URL may not say either, before it uses the client.
func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, o := range []queuelock.Options{{Prefix: long}, {Prefix: "{x}"}, {Replicas: -1}, {Replicas: 101}, {RestartDelay: time.Millisecond}} {
		if _, err := queuelock.New(t.Context(), nil, &o); err == nil || errors.Is(err, engine.ErrURL) {
			t.Errorf("queuelock, %+v: %v", o, err)
		}
	}
	if _, err := plainlock.New(t.Context(), nil, &plainlock.Options{Prefix: long}); err == nil || errors.Is(err, engine.ErrURL) {
		t.Errorf("plainlock: %v", err)
	}
}

func TestWrongServersAreNamed(t *testing.T) {
	r := servers.Redis(t, &servers.RedisOptions{Password: "right", TLS: true})
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, c := range map[string]struct{ url, want string }{
		"wrong password":          {"redis://:hunter2@" + r.Addr, "password is wrong"},
		"no password":             {"redis://" + r.Addr, "password is wrong or missing"},
		"wrong user":              {"redis://bob:hunter2@" + r.Addr, "password is wrong"},
		"no such database":        {"redis://:right@" + r.Addr + "/99", "DB index"},
		"a web server":            {"redis://:hunter2@" + web.Listener.Addr().String(), "not a Redis"},
		"nobody":                  {"redis://:hunter2@" + servers.Nobody, "refused"},
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
			bound := 2 * time.Second
			if c.want != "" {
				bound = 10 * time.Second // it says so as soon as it knows
			}
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			e, err := redis.Open(ctx, c.url)
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
			if d := time.Since(start); d > bound+10*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

func TestUnfitServersAreRefused(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		r := servers.Redis(t, &servers.RedisOptions{Args: []string{"--maxmemory", "50mb", "--maxmemory-policy", policy}})
		for _, layout := range []string{"queues", "plain"} {
			_, err := redis.Open(within(t), "redis://"+r.Addr+"?layout="+layout)
			if err == nil || !strings.Contains(err.Error(), policy) || !strings.Contains(err.Error(), "allow-eviction") {
				t.Errorf("%s with %s: %v", layout, policy, err)
			}
			open(t, "redis://"+r.Addr+"?allow-eviction&layout="+layout)
		}
	}
	c := servers.RedisCluster(t, nil)
	if _, err := redis.Open(within(t), "redis://"+c.Nodes[0].Addr); err == nil || !strings.Contains(err.Error(), "redis-cluster://") {
		t.Errorf("one node of a Cluster: %v", err)
	}
}
