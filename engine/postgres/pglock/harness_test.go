package pglock

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/internal/servers"
)

// shared is the server of all tests that neither restart it nor change its settings.
// Each has a database of its own there.
var shared struct {
	once   sync.Once
	server *servers.PostgresServer
	err    error
	made   atomic.Int64
}

func TestMain(m *testing.M) {
	code := m.Run()
	if s := shared.server; s != nil {
		s.Close()
	}
	if code == 0 {
		// What ends by itself after a connection was cut: pgx asks the server to
		// cancel what was under way there.
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn.(*PgConn).asyncClose.func1")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// server is one of a test's own.
func server(t testing.TB, args ...string) *servers.PostgresServer {
	t.Helper()
	return servers.Postgres(t, &servers.PostgresOptions{Args: args})
}

// database is the URL of an empty database on the shared server.
func database(t testing.TB) string {
	t.Helper()
	servers.Need(t, "postgres", "initdb", "psql")
	shared.once.Do(func() {
		shared.server, shared.err = servers.StartPostgres(&servers.PostgresOptions{
			Args: []string{"-c", "max_connections=400", "-c", "track_commit_timestamp=on"},
		})
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	name := fmt.Sprint("test", shared.made.Add(1))
	if _, err := shared.server.Query("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return shared.server.URL("", name)
}

func open(t testing.TB, url string) *Engine {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e, err := Open(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(*Engine)
}

// connect is a pool of the test's, for looking at what the engine does.
func connect(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// do runs SQL with the default schema.
func do(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(within(t), defaults.in(sql), args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

var defaults = Options{Schema: "leasehold"}

// get is one value.
func get[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(within(t), defaults.in(sql), args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func exclusive(name string) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Units: engine.Max, Limit: engine.Max, WaitTTL: 3 * time.Second}
}

func join(t testing.TB, e engine.Engine, r engine.Request) engine.Claim {
	t.Helper()
	c, err := e.Join(within(t), r)
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	return c
}

func leave(t testing.TB, e engine.Engine, c engine.Claim) engine.State {
	t.Helper()
	cs, err := e.Leave(within(t), []engine.Claim{c})
	if err != nil || len(cs) != 1 {
		t.Fatalf("Leave: %v %v", cs, err)
	}
	return cs[0].State
}

func renew(t testing.TB, e engine.Engine, c engine.Claim, want time.Duration) engine.Claim {
	t.Helper()
	cs, err := e.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: want}})
	if err != nil || len(cs) != 1 {
		t.Fatalf("Renew: %v %v", cs, err)
	}
	return cs[0]
}

// watch runs Watch for the length of a test. The subscription stands when it returns.
func watch(t testing.TB, e engine.Engine) <-chan engine.Claim {
	t.Helper()
	heard := make(chan engine.Claim, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Watch(ctx, func(c engine.Claim) { heard <- c })
	}()
	t.Cleanup(func() { cancel(); <-done })
	expect(t, heard, func(c engine.Claim) bool { return c.Name == "" })
	return heard
}

func expect(t testing.TB, heard <-chan engine.Claim, is func(engine.Claim) bool) engine.Claim {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case c := <-heard:
			if is(c) {
				return c
			}
		case <-timeout:
			t.Fatal("not heard in time")
		}
	}
}

// kill ends a client as the death of its process would.
func kill(e *Engine) {
	e.end()
	e.client.pool.Close()
}

// prepare has every connection of a client know every call, so that the next answer
// is the one to a call.
func prepare(t testing.TB, e *Engine) {
	t.Helper()
	c := e.client.calls
	for _, conn := range e.client.pool.AcquireAllIdle(within(t)) {
		for _, sql := range []string{c.join, c.renew.one, c.leave.one, c.renew.all, c.leave.all, c.evict, c.depart} {
			if _, err := conn.Conn().Prepare(within(t), sql, sql); err != nil {
				t.Fatal(err)
			}
		}
		conn.Release()
	}
}

// forget empties the tables.
func forget(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	do(t, pool, `TRUNCATE @names, @claims`)
	do(t, pool, `UPDATE @swept SET upto = '', last = 0`)
}

// through is a URL by way of a proxy.
func through(url string, s *servers.PostgresServer, p *servers.Proxy) string {
	return strings.Replace(url, s.Addr, p.Addr, 1)
}

func TestConformance(t *testing.T) {
	s := server(t)
	url := s.URL("", "")
	open(t, url).Close() // makes the tables
	admin := connect(t, url)
	var mu sync.Mutex
	proxies := map[engine.Engine]*servers.Proxy{}
	enginetest.Run(t, enginetest.Harness{
		Name: "pglock", Committed: "../../../docs/guarantees",
		New: func(t testing.TB) engine.Engine {
			p := servers.ProxyTo(t, s.Addr)
			e := open(t, through(url, s, p))
			mu.Lock()
			defer mu.Unlock()
			proxies[e] = p
			return e
		},
		Restart: func(t testing.TB) {
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			admin.Reset()
		},
		Forget: func(t testing.TB) { forget(t, admin) },
		Kill:   func(_ testing.TB, e engine.Engine) { kill(e.(*Engine)) },
		LoseReply: func(t testing.TB, e engine.Engine) {
			prepare(t, e.(*Engine))
			mu.Lock()
			defer mu.Unlock()
			proxies[e].CutReply(0)
		},
		CountKeys: func(t testing.TB) int {
			// Names go by themselves, a day after they were last used, and what has
			// expired there with them.
			return get[int](t, admin, `SELECT count(*) FROM @claims WHERE deadline > @clock()`)
		},
	})
}
