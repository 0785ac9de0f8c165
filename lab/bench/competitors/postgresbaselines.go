package competitors

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/lab/bench/harness"
)

// Statements is the least that a lock and unlock in PostgreSQL can be: two commits of
// one row each. It excludes nobody.
func Statements() harness.Competitor {
	return harness.Competitor{
		Name:     "two UPDATEs",
		Baseline: true,
		About:    "a row's UPDATE in place of the lock and another in place of the unlock, by pgx and its pool as it comes",
		Open: func(ctx context.Context, at harness.Endpoint) (harness.Locker, error) {
			pool, err := pgxpool.New(ctx, postgresURL(at))
			return statements{pool}, err
		},
	}
}

type statements struct{ pool *pgxpool.Pool }

func (s statements) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	const update = "UPDATE floor SET v = v + 1 WHERE k = $1"
	tag, err := s.pool.Exec(ctx, update, name)
	if err == nil && tag.RowsAffected() == 0 { // once for each name
		_, err = s.pool.Exec(ctx, "INSERT INTO floor VALUES ($1, 0)", name)
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := s.pool.Exec(context.Background(), update, name)
		return err
	}, nil
}

func (s statements) Close() error {
	s.pool.Close()
	return nil
}

// Advisory is the lock of PostgreSQL itself: it ends with its connection, which is
// pinned for as long as somebody waits or holds.
func Advisory() harness.Competitor {
	return harness.Competitor{
		Name: "pg_advisory_lock", Baseline: true,
		Waits: "in the server, on a connection of its own",
		About: "pg_advisory_lock of the name's hash, on a connection that it keeps from the pool until it is unlocked: no lease, no token",
		Open: func(ctx context.Context, at harness.Endpoint) (harness.Locker, error) {
			pool, err := pgxpool.New(ctx, postgresURL(at))
			return advisory{pool}, err
		},
	}
}

type advisory struct{ pool *pgxpool.Pool }

func (a advisory) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	conn, err := a.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	// Who is cut off while it waits may have been given the lock: its connection is
	// closed by pgx, and the lock ends with it.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", name); err != nil {
		conn.Release()
		return nil, err
	}
	return func() error {
		defer conn.Release()
		var was bool
		err := conn.QueryRow(context.Background(), "SELECT pg_advisory_unlock(hashtextextended($1, 0))", name).Scan(&was)
		if err == nil && !was {
			err = errors.New("it was not locked")
		}
		return err
	}, nil
}

func (a advisory) Close() error {
	a.pool.Close()
	return nil
}
