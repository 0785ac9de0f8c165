package pglock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
)

// shifted has a database whose clock is that far from the clients'.
func shifted(t *testing.T, by time.Duration) string {
	t.Helper()
	url := database(t)
	open(t, url).Close() // makes the tables
	do(t, connect(t, url), fmt.Sprintf(`CREATE OR REPLACE FUNCTION @clock() RETURNS bigint LANGUAGE sql VOLATILE AS
		$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + %d $$`, by.Microseconds()))
	return url
}

// A client's wall clock decides nothing: where it is ten minutes off, leases are as
// good, and a killed holder's name is free as soon as anywhere. Nothing sweeps.
func TestAClientWhoseClockIsOffSeesNoDifference(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{0, 10 * time.Minute, -10 * time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			url := shifted(t, by)
			const ttl = 6 * time.Second
			var took time.Duration
			for range 3 { // a round in which the machine stands still takes longer
				if took = afterAKill(t, url, ttl); took <= ttl+time.Second {
					return
				}
			}
			t.Errorf("the next holds %v after the kill, and as late twice before", took)
		})
	}
}

// afterAKill is how long after the kill of a holder who renews the next one holds.
func afterAKill(t *testing.T, url string, ttl time.Duration) time.Duration {
	t.Helper()
	var clients [2]*leasehold.Client
	var engines [2]*Engine
	for i := range clients {
		engines[i] = open(t, url)
		c, err := leasehold.New(engines[i], &leasehold.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients[i] = c
	}
	l, err := clients[0].Lock(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	if left := l.Remaining(); !l.Valid() || left <= 0 || left > ttl {
		t.Errorf("valid: %v, for %v", l.Valid(), left)
	}
	until(t, "it is never renewed for its whole TTL", func() bool { return l.Remaining() > ttl*9/10 })
	next := make(chan error, 1)
	ctx := within(t)
	go func() {
		l, err := clients[1].Lock(ctx, "a")
		if err == nil {
			err = l.Unlock()
		}
		next <- err
	}()
	until(t, "nobody waits", func() bool {
		queue, err := engines[1].Queue(within(t), "a")
		return err == nil && len(queue.Claims) == 2
	})
	kill(engines[0])
	killed := time.Now()
	if err := <-next; err != nil {
		t.Fatal(err)
	}
	return time.Since(killed)
}

// A client that has one claim at a time takes one connection, beside the one that listens: a
// session costs the server megabytes, and its first call some tens of milliseconds.
func TestAClientOfOneClaimIsOneSession(t *testing.T) {
	t.Parallel()
	url := database(t)
	e := open(t, url)
	for range 3 {
		c := join(t, e, exclusive("a"))
		renew(t, e, c, time.Minute)
		leave(t, e, c)
	}
	if n := e.client.pool.Stat().NewConnsCount(); n != 1 {
		t.Errorf("it has made %d connections", n)
	}
}

// Ten thousand leases keep no connection, and are renewed a hundred in a statement.
func TestManyLeasesHoldNoConnection(t *testing.T) {
	t.Parallel()
	leases := engine.MaxBatch
	if testing.Short() {
		leases /= 20
	}
	url := database(t)
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	count := counter{make(chan string, 2*leases)}
	config.ConnConfig.Tracer = count
	e := openOn(t, config)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	renewals, claims := make([]engine.Renewal, leases), make([]engine.Claim, leases)
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := part; i < leases; i += 4 {
				r := exclusive(fmt.Sprint("lease ", i))
				r.WaitTTL = 10 * time.Minute
				c, err := e.Join(ctx, r)
				if err != nil || c.State != engine.Held {
					t.Errorf("%v, %v", c.State, err)
					return
				}
				claims[i], renewals[i] = c, engine.Renewal{Name: c.Name, ID: c.ID, Want: 10 * time.Minute}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	pool := e.client.pool
	s := pool.Stat()
	if n := get[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`); s.AcquiredConns() != 0 || n > int(s.MaxConns()) {
		t.Errorf("%d leases hold %d connections, and the server has %d", leases, s.AcquiredConns(), n)
	}
	for len(count.n) > 0 {
		<-count.n
	}
	cs, err := e.Renew(ctx, renewals)
	if err != nil || len(cs) != leases {
		t.Fatalf("Renew answers for %d: %v", len(cs), err)
	}
	if n := len(count.n); n != leases/sqllock.Chunk {
		t.Errorf("Renew of %d is %d statements", leases, n)
	}
	held := map[string]uint64{}
	for _, c := range claims {
		held[c.Name] = c.Ticket
	}
	for _, c := range cs {
		if c.State != engine.Held || c.Ticket != held[c.Name] {
			t.Fatalf("Renew: %q is %v with ticket %d", c.Name, c.State, c.Ticket)
		}
	}
	if cs, err := e.Leave(ctx, claims); err != nil || len(cs) != leases {
		t.Errorf("Leave answers for %d: %v", len(cs), err)
	}
	if n := get[int](t, pool, `SELECT count(*) FROM @claims`); n != 0 {
		t.Errorf("%d are left", n)
	}
}
