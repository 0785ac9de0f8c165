// Package sqltest has the tests that engines with queues in rows of a database share: they
// must hold for any such database.
package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// Kit is an engine and its databases, for these tests.
type Kit struct {
	Name string
	Open func(ctx context.Context, url string) (engine.Engine, error)

	// Database is the URL of an empty one. More adds a parameter to such a URL, and
	// Conns the one that bounds the connections of a pool.
	Database func(t testing.TB) string
	More     func(url, parameter string) string
	Conns    string

	// Connect is a pool of the test's, and In is SQL for the tables with the default
	// names.
	Connect func(t testing.TB, url string) *sql.DB
	In      func(sql string) string

	// Clock has the calls in a database, which has its tables, read a clock that the
	// test sets, in microseconds since 1970.
	Clock func(t testing.TB, url string) (set func(now int64))

	// Sweep has every Join sweep, where one in a few would.
	Sweep func(t testing.TB, url string)

	// Dial makes one connection, and Close ends it.
	Dial func(ctx context.Context, url string) (io.Closer, error)

	// Replace has a function of this client's made anew with other words.
	Replace func(t testing.TB, url, function, old, by string)

	// Binary is a value of no text, in SQL.
	Binary string

	// Told is what follows the columns of claims that all have, and Column what follows a
	// row to name its name.
	Notified, Column string

	// Waiting is how many statements in this database wait for a lock.
	Waiting func(t testing.TB, db *sql.DB) int
}

func (k Kit) open(t testing.TB, url string) engine.Engine {
	t.Helper()
	e, err := k.Open(testutil.Within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// count is one number.
func (k Kit) count(t testing.TB, db *sql.DB, sql string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(testutil.Within(t), k.In(sql)).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// Begin begins a transaction of somebody else's, which is rolled back with the test.
func Begin(t testing.TB, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(testutil.Within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// Lock has a transaction lock the row of a name, which holds no '.
func (k Kit) Lock(t testing.TB, tx *sql.Tx, name string) {
	t.Helper()
	var last int64
	if err := tx.QueryRowContext(testutil.Within(t), k.In(`SELECT last FROM @names WHERE name = '`+name+`' FOR UPDATE`)).Scan(&last); err != nil {
		t.Fatalf("the stranger's transaction: %v", err)
	}
}

// Refused opens a URL, which must fail and say why.
func (k Kit) Refused(t *testing.T, url, want string) {
	t.Helper()
	e, err := k.Open(testutil.Within(t), url)
	if err == nil {
		e.Close()
		t.Fatalf("opened; want %q", want)
	}
	if !strings.HasPrefix(err.Error(), k.Name+": ") || !strings.Contains(err.Error(), want) {
		t.Errorf("%q does not say %q", err, want)
	}
}

// WhatIsNoServerIsNamed: an address that accepts and never says a word, and one of another
// protocol, end the opening by its context, or within a bound of ours, and say what they are.
func (k Kit) WhatIsNoServerIsNamed(t *testing.T, url func(addr string) string, silent, http string) {
	t.Parallel()
	listen := func(serve func(net.Conn)) string { return servers.Impostor(t, "tcp", serve) }
	received := make(chan struct{}, 100)
	quiet := url(listen(func(net.Conn) { received <- struct{}{} }))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-received
		cancel()
	}()
	if _, err := k.Open(ctx, quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller whose context ends gets %v", err)
	}
	began := time.Now()
	k.Refused(t, quiet, silent)
	if took := time.Since(began); took > 20*time.Second { // twice the bound that others had
		t.Fatalf("it took %v", took)
	}
	k.Refused(t, url(listen(func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n400 Bad Request")
		c.Close()
	})), http)
	k.Refused(t, url(servers.Redis(t, nil).Addr), "")
}

// Grants are the statements in the package documentation that give rights.
func Grants(t testing.TB) (all []string) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(doc)) {
		if l = strings.TrimSpace(strings.TrimPrefix(l, "//")); strings.HasPrefix(l, "GRANT ") {
			all = append(all, l)
		}
	}
	if len(all) == 0 {
		t.Fatal("the documentation grants nothing")
	}
	return all
}

// Conformance runs the suite on engines behind a proxy each, on one server that has the
// tables. What is left to the caller: Restart, Forget, Kill and CountKeys of h. prepare
// is called before the answer to the next call is lost.
func (k Kit) Conformance(t *testing.T, addr, url string, prepare func(testing.TB, engine.Engine), h enginetest.Harness) {
	var mu sync.Mutex
	proxies := map[engine.Engine]*servers.Proxy{}
	h.Name, h.Committed, h.SideBySide = k.Name, "../../../docs/guarantees", true
	h.New = func(t testing.TB) engine.Engine {
		p := servers.ProxyTo(t, addr)
		e := k.open(t, strings.Replace(url, addr, p.Addr, 1))
		mu.Lock()
		defer mu.Unlock()
		proxies[e] = p
		return e
	}
	h.RefuseConnections = func(t testing.TB) func() { return k.Fill(t, url) }
	h.Spoil = k.spoil(url)
	h.LoseReply = func(t testing.TB, e engine.Engine) func() bool {
		prepare(t, e)
		mu.Lock()
		defer mu.Unlock()
		p := proxies[e]
		p.CutReply(0)
		return func() bool { return p.Lost() > 0 }
	}
	if !h.Polls {
		h.CountRequests = func(testing.TB) (n int) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range proxies {
				for _, times := range p.Commands() {
					n += times
				}
			}
			return n
		}
	}
	enginetest.Run(t, h)
}

// Storm has joiners ask for one name at once, whose row is there. It is how many of them
// hold. lenient: errors of calls are no failures.
func Storm(t *testing.T, ctx context.Context, e engine.Engine, joiners int, lenient bool) (held int) {
	t.Helper()
	start := make(chan struct{})
	var all sync.WaitGroup
	var mu sync.Mutex
	for range joiners {
		all.Go(func() {
			<-start
			c, err := e.Join(ctx, testutil.Lasting("a", time.Minute))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if !lenient {
					t.Errorf("Join: %v", err)
				}
				t.Log(err)
			}
			if c.State == engine.Held {
				held++
			}
		})
	}
	close(start)
	all.Wait()
	return held
}
