package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/internal/servers"
)

// shared is the server of all tests that neither restart it nor change its settings.
// Each has a database of its own there.
var shared struct {
	once   sync.Once
	server *servers.MariaDBServer
	err    error
	made   atomic.Int64
}

func TestMain(m *testing.M) {
	code := m.Run()
	if s := shared.server; s != nil {
		s.Close()
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// database is the URL of an empty database on the shared server.
func database(t testing.TB) string {
	t.Helper()
	servers.Need(t, "mariadbd", "mariadb-install-db", "mariadb")
	shared.once.Do(func() {
		shared.server, shared.err = servers.StartMariaDB(&servers.MariaDBOptions{Args: []string{"--max-connections=600"}})
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
	e, err := Open(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(*Engine)
}

// connect is a pool of the test's, for looking at what the engine does.
func connect(t testing.TB, url string) *sql.DB {
	t.Helper()
	config, _, _, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

var defaults = Options{Prefix: "leasehold_"}

// do runs SQL with the default prefix.
func do(t testing.TB, db *sql.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(within(t), defaults.in(sql), args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// get is one value.
func get[T any](t testing.TB, db *sql.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(within(t), defaults.in(sql), args...).Scan(&v); err != nil {
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

func until(t testing.TB, not string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(not)
		}
	}
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

// kill ends a client as the death of its process would.
func kill(e *Engine) {
	e.end()
	e.client.db.Close()
}

// forget empties the tables.
func forget(t testing.TB, db *sql.DB) {
	t.Helper()
	do(t, db, `DELETE FROM @claims`)
	do(t, db, `DELETE FROM @names`)
	do(t, db, `UPDATE @swept SET upto = '', last = 0`)
}

// through is a URL by way of a proxy.
func through(url string, s *servers.MariaDBServer, p *servers.Proxy) string {
	return strings.Replace(url, s.Addr, p.Addr, 1)
}

func TestConformance(t *testing.T) {
	s := servers.MariaDB(t, nil)
	url := s.URL("", "")
	open(t, url).Close() // makes the tables
	admin := connect(t, url)
	var mu sync.Mutex
	proxies := map[engine.Engine]*servers.Proxy{}
	enginetest.Run(t, enginetest.Harness{
		Name: "mysqllock", Committed: "../../../docs/guarantees", Polls: true,
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
		},
		Forget: func(t testing.TB) { forget(t, admin) },
		Kill:   func(_ testing.TB, e engine.Engine) { kill(e.(*Engine)) },
		LoseReply: func(t testing.TB, e engine.Engine) {
			mu.Lock()
			defer mu.Unlock()
			proxies[e].CutReply(0)
		},
		CountKeys: func(t testing.TB) int {
			// Names go by themselves, a day after they were last used, and what has
			// expired there with them.
			return get[int](t, admin, `SELECT COUNT(*) FROM @claims WHERE deadline > `+clock)
		},
	})
}
