package pglock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
)

func TestAFullServerCostsNoLease(t *testing.T) {
	rows.AFullServerCostsNoLease(t, server(t, "-c", "max_connections=12", "-c", "superuser_reserved_connections=0").URL("", ""))
}

func TestHostileRowsHarmNoOtherName(t *testing.T) {
	rows.HostileRowsHarmNoOtherName(t)
}

func TestWhatIsUsedMeanwhileIsNotSwept(t *testing.T) {
	rows.WhatIsUsedMeanwhileIsNotSwept(t, "IF n.seen < t AND n.name <> joined THEN")
}

// A short statement_timeout does not end calls of a pool of ours that wait for each other.
// A caller's pool with one is refused, since sessions there are not ours to change.
func TestAShortStatementTimeout(t *testing.T) {
	t.Parallel()
	// The bound may end, on a busy machine, what an opening asks before it is lifted.
	asked := func(open func() error) (err error) {
		for range 20 {
			if err = open(); code(err) != "57014" {
				break
			}
		}
		return err
	}
	for _, setting := range []string{"statement_timeout", "lock_timeout"} {
		url := database(t)
		admin := connect(t, url+"&options=-c%20statement_timeout%3D0%20-c%20lock_timeout%3D0") // of its own
		leave(t, open(t, url), join(t, open(t, url), exclusive("a")))
		do(t, admin, `ALTER DATABASE `+get[string](t, admin, `SELECT current_database()`)+` SET `+setting+` = '900ms'`)
		var e engine.Engine
		if err := asked(func() (err error) { e, err = Open(within(t), url); return err }); err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		tx, err := admin.Begin(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		if _, err := tx.Exec(within(t), defaults.in(`SELECT FROM @names FOR UPDATE`)); err != nil {
			t.Fatal(err)
		}
		joined := make(chan error, 1)
		ctx := within(t)
		go func() {
			_, err := e.Join(ctx, exclusive("a"))
			joined <- err
		}()
		until(t, "the Join does not wait", func() bool { return waiting(t, admin) == 1 })
		time.Sleep(2 * time.Second) // twice what would end it
		if err := tx.Rollback(within(t)); err != nil {
			t.Fatal(err)
		}
		if err := <-joined; err != nil {
			t.Errorf("%s: %v", setting, err)
		}
		pool := connect(t, url)
		err = asked(func() error { _, err := New(within(t), pool, nil); return err })
		if err == nil || !strings.Contains(err.Error(), "is 900 ms for this user") {
			t.Errorf("%s of a caller's pool: %v", setting, err)
		}
		err = asked(func() error {
			e, err := Open(within(t), url+"&options=-c%20"+setting+"%3D950")
			if err == nil {
				e.Close()
			}
			return err
		})
		if err == nil || !strings.HasPrefix(err.Error(), "pglock: ") || !strings.Contains(err.Error(), "is 950 ms for this user") {
			t.Errorf("%s in a URL: %v", setting, err)
		}
	}
}

// Sessions of a pool of ours stay, however long they do nothing. Of a server that does not
// know the setting nothing is asked.
func TestSessionsThatDoNothingStay(t *testing.T) {
	t.Parallel()
	url := database(t)
	admin := connect(t, url)
	do(t, admin, `ALTER DATABASE `+get[string](t, admin, `SELECT current_database()`)+` SET idle_session_timeout = '1min'`)
	for _, more := range []string{"", "&options=-c%20statement_timeout%3D5000"} {
		e := open(t, url+more)
		listener, err := e.client.listener(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer bye(listener)
		conn, err := e.client.pool.Acquire(within(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		for what, c := range map[string]*pgx.Conn{"the listener": listener, "a connection of the pool": conn.Conn()} {
			var bound string
			if err := c.QueryRow(within(t), `SELECT current_setting('idle_session_timeout')`).Scan(&bound); err != nil || bound != "0" {
				t.Errorf("%q: %s is ended after %s: %v", more, what, bound, err)
			}
		}
	}
	do(t, admin, strings.ReplaceAll(neverIdleOut, "idle_session_timeout", "no_such_setting"))
	do(t, admin, strings.ReplaceAll(unbounded, "transaction_timeout", "no_such_setting"))
}

// Bounds that somebody sets later, for the server, a role or a database, end nothing either: a
// session has its own from the beginning.
func TestBoundsThatAreSetLaterEndNothing(t *testing.T) {
	t.Parallel()
	url := database(t)
	admin := connect(t, url)
	e := open(t, url)
	conn, err := e.client.pool.Acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	do(t, admin, `ALTER DATABASE `+get[string](t, admin, `SELECT current_database()`)+` SET lock_timeout = '300ms'`)
	listener, err := e.client.listener(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer bye(listener)
	for what, c := range map[string]*pgx.Conn{"a new connection": listener, "one that stood": conn.Conn()} {
		for _, bound := range []string{"idle_session_timeout", "statement_timeout", "lock_timeout", "transaction_timeout"} {
			if bound == "transaction_timeout" && get[int](t, admin, `SELECT count(*) FROM pg_settings WHERE name = $1`, bound) == 0 {
				continue // PostgreSQL before 17
			}
			var is string
			if err := c.QueryRow(within(t), `SELECT setting || ' of the ' || source FROM pg_settings WHERE name = $1`, bound).Scan(&is); err != nil || is != "0 of the session" {
				t.Errorf("%s: %s is %s: %v", what, bound, is, err)
			}
		}
	}
}

// What a session has for these does not count in a call.
func TestSettingsOfACall(t *testing.T) {
	t.Parallel()
	url := database(t)
	open(t, url)
	for setting, want := range map[string]string{"synchronous_commit=local": "on", "synchronous_commit=remote_write": "remote_write", "jit=on": "off"} {
		name, _, _ := strings.Cut(setting, "=")
		if got := get[string](t, connect(t, url+"&"+setting), `WITH l AS MATERIALIZED (SELECT @open('a')) SELECT current_setting('`+name+`') FROM l`); got != want {
			t.Errorf("%s: it is %s in a call", setting, got)
		}
	}
}

// The connection that renewals have comes from a pool of ours, and stays there.
func TestRenewalsHaveAConnectionThatNobodyTakes(t *testing.T) {
	t.Parallel()
	e := open(t, database(t)+"&pool_max_conns=3")
	c := join(t, e, testutil.Lasting("a", time.Minute))
	if n := e.client.pool.Stat().AcquiredConns(); n != 1 {
		t.Fatalf("%d connections are kept", n)
	}
	conns := e.client.pool.AcquireAllIdle(within(t))
	for len(conns) < 2 {
		conn, err := e.client.pool.Acquire(within(t))
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	if got := renew(t, e, c, time.Minute); got.State != engine.Held {
		t.Errorf("while others have all connections it is %v", got.State)
	}
	for _, conn := range conns {
		conn.Release()
	}
}

// A timeout that is set after opening ends calls early: nothing is learned, and the error
// says what to set.
func TestATimeoutThatEndsACallIsNamed(t *testing.T) {
	for _, state := range []string{"57014", "55P03", "25P04"} {
		cause := &pgconn.PgError{Code: state}
		if err := explain(cause); !errors.Is(err, cause) || !strings.Contains(err.Error(), "statement_timeout") || !strings.Contains(err.Error(), "transaction_timeout") || errors.Is(err, engine.ErrRefused) {
			t.Errorf("%s: %v; want one that names the time-outs, and is no refusal", state, err)
		}
	}
}

// A call that an operator cancels has the same code as one whose time is up: the error says
// both, and what to do.
func TestACallThatSomebodyCancelsIsNamed(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, admin := open(t, url), connect(t, url)
	leave(t, e, join(t, e, exclusive("a")))
	tx, err := admin.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(within(t), defaults.in(`SELECT FROM @names FOR UPDATE`)); err != nil {
		t.Fatal(err)
	}
	joined := make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := e.Join(ctx, exclusive("a"))
		joined <- err
	}()
	until(t, "the Join does not wait", func() bool { return waiting(t, admin) == 1 })
	do(t, admin, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	err = <-joined
	if code(err) != "57014" || errors.Is(err, engine.ErrRefused) {
		t.Fatalf("a call that was cancelled: %v", err)
	}
	for _, said := range []string{"pg_cancel_backend", "statement_timeout", "ask again"} {
		if !strings.Contains(err.Error(), said) {
			t.Errorf("%q does not say %q", err, said)
		}
	}
}
