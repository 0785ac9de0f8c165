package handwritten_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"leasehold/cmd/leasehold/internal/handwritten"
	"leasehold/lab/servers"
)

func database(t *testing.T, table string) (*sql.DB, string) {
	s := servers.Postgres(t, &servers.PostgresOptions{Args: []string{"-c", "fsync=off"}})
	host, port, _ := net.SplitHostPort(s.Addr)
	url := "postgres://postgres@" + net.JoinHostPort(host, port) + "/postgres"
	db, err := sql.Open("pgx", url+"?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if _, err := db.ExecContext(within(t), table); err != nil {
		t.Fatal(err)
	}
	return db, url
}

// A unique row: without a sweeper the row of a dead holder blocks for ever; with one the
// row of a living holder goes too, and nobody tells it.
func TestTheSweeperTakesTheRowOfTheLiving(t *testing.T) {
	t.Parallel()
	db, url := database(t, handwritten.Table)
	a := &handwritten.UniqueRow{DB: db, Name: name, Owner: "A"}
	b := &handwritten.UniqueRow{DB: db, Name: name, Owner: "B"}
	lock(t, "A", a)
	if err := b.Lock(soon(t, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("B: %v", err)
	}
	if err := handwritten.Sweep(within(t), db, expiry); err != nil { // A works for longer
		t.Fatal(err)
	}
	lock(t, "B", b)
	if err := a.Unlock(within(t)); err != nil {
		t.Errorf("A is told %v: it was to learn nothing", err)
	}

	const ttl = 5 * time.Second // longer than a busy machine is late with a renewal
	first, second := oursTTL(t, url, ttl), oursTTL(t, url, ttl)
	held := hold(t, "A", first)
	time.Sleep(ttl + time.Second) // A works for longer, and is renewed
	nobodyElse(t, second)
	unlock(t, "A", held)
	unlock(t, "B", hold(t, "B", second))
}

// A version column: the loser is refused its row after it has done its work.
func TestTheLoserOfAVersionHasDoneItsWork(t *testing.T) {
	t.Parallel()
	db, url := database(t, handwritten.VersionTable)
	fill := func() {
		if _, err := db.ExecContext(within(t), `INSERT INTO stock VALUES (42, 1, 1) ON CONFLICT (id) DO UPDATE SET n = 1`); err != nil {
			t.Fatal(err)
		}
	}
	fill()
	v := &handwritten.Version{DB: db, ID: 42}
	sent := 0
	ship := func(n int) (int, error) { // outside of the row: a mail, a payment
		if n > 0 {
			sent++
			n--
		}
		return n, nil
	}
	saved, err := v.Work(within(t), func(n int) (int, error) {
		if saved, err := v.Work(within(t), ship); !saved || err != nil {
			t.Fatalf("B: %v, %v", saved, err)
		}
		return ship(n)
	})
	if saved || err != nil || sent != 2 {
		t.Errorf("A: %v, %v; %d were sent of the one in stock, want 2", saved, err, sent)
	}

	fill()
	sent = 0
	for range 2 {
		held := hold(t, "a client", oursTTL(t, url, 10*time.Second))
		if saved, err := v.Work(within(t), ship); !saved || err != nil {
			t.Fatalf("%v, %v", saved, err)
		}
		unlock(t, "a client", held)
	}
	if sent != 1 {
		t.Errorf("ours sent %d of the one in stock", sent)
	}
}
