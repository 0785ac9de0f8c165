package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold"
	"leasehold/engine/postgres/pglock"
	"leasehold/optimistic"
)

// way is one way to change the row. Every writer has its own, with connections of its
// own, as if it were a process of its own.
type way struct {
	name string
	open func(ctx context.Context, url string, work time.Duration) (*writer, error)
}

// writer changes the row once in each call. ErrConflict: not changed.
type writer struct {
	change func(context.Context) error
	stats  optimistic.Stats
	close  func()
}

const (
	create    = "CREATE TABLE stock (id int PRIMARY KEY, n bigint NOT NULL, version bigint NOT NULL)"
	insert    = "INSERT INTO stock VALUES (42, 1000000000, 0)"
	read      = "SELECT n, version FROM stock WHERE id = 42"
	overwrite = "UPDATE stock SET n = $1 WHERE id = 42"
)

// ways are those that can do work between reading and writing, but the first.
func ways(work time.Duration) []way {
	all := []way{{"version column", byVersion}, {"row lock", byRowLock}, {"leasehold", byLease}}
	if work == 0 {
		all = append([]way{{"one statement", byStatement}}, all...)
	}
	return all
}

func pool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 2 // pglock listens on one
	return pgxpool.NewWithConfig(ctx, config)
}

func byStatement(ctx context.Context, url string, _ time.Duration) (*writer, error) {
	p, err := pool(ctx, url)
	if err != nil {
		return nil, err
	}
	return &writer{close: p.Close, change: func(ctx context.Context) error {
		changed, err := optimistic.ChangedPgx(p.Exec(ctx, "UPDATE stock SET n = n - 1 WHERE id = 42 AND n > 0"))
		if err == nil && !changed {
			err = errors.New("sold out")
		}
		return err
	}}, nil
}

type stock struct{ n, version int64 }

func byVersion(ctx context.Context, url string, work time.Duration) (*writer, error) {
	p, err := pool(ctx, url)
	if err != nil {
		return nil, err
	}
	w := &writer{close: p.Close}
	row := optimistic.Row[stock]{
		Read: func(ctx context.Context) (s stock, err error) {
			return s, p.QueryRow(ctx, read).Scan(&s.n, &s.version)
		},
		Write: func(ctx context.Context, old, next stock) (bool, error) {
			return optimistic.ChangedPgx(p.Exec(ctx,
				"UPDATE stock SET n = $1, version = version + 1 WHERE id = 42 AND version = $2", next.n, old.version))
		},
	}
	w.change = func(ctx context.Context) error {
		_, err := optimistic.Update(ctx, &optimistic.Options{Stats: &w.stats}, row, func(s stock) (stock, error) {
			s.n--
			return s, busy(ctx, work)
		})
		return err
	}
	return w, nil
}

func byRowLock(ctx context.Context, url string, work time.Duration) (*writer, error) {
	p, err := pool(ctx, url)
	if err != nil {
		return nil, err
	}
	return &writer{close: p.Close, change: func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, p, func(tx pgx.Tx) error {
			var s stock
			if err := tx.QueryRow(ctx, read+" FOR UPDATE").Scan(&s.n, &s.version); err != nil {
				return err
			}
			if err := busy(ctx, work); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, overwrite, s.n-1)
			return err
		})
	}}, nil
}

func byLease(ctx context.Context, url string, work time.Duration) (*writer, error) {
	p, err := pool(ctx, url)
	if err != nil {
		return nil, err
	}
	eng, err := pglock.New(ctx, p, nil)
	if err != nil {
		p.Close()
		return nil, err
	}
	locks, err := leasehold.New(eng, nil)
	if err != nil {
		p.Close()
		return nil, err
	}
	stop := func() {
		locks.Close() // whatever it says, the database goes with its folder
		p.Close()
	}
	return &writer{close: stop, change: func(ctx context.Context) error {
		return locks.Do(ctx, "stock:42", func(ctx context.Context, _ *leasehold.Lease) error {
			var s stock
			if err := p.QueryRow(ctx, read).Scan(&s.n, &s.version); err != nil {
				return err
			}
			if err := busy(ctx, work); err != nil {
				return err
			}
			_, err := p.Exec(ctx, overwrite, s.n-1)
			return err
		})
	}}, nil
}

// busy is the work between reading and writing: waiting for somebody else, so that it
// costs no core.
func busy(ctx context.Context, work time.Duration) error {
	if work == 0 {
		return nil
	}
	t := time.NewTimer(work)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
