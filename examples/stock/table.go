package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"leasehold/optimistic"
)

// table is the shelf in a database.
type table struct{ c *pgx.Conn }

func openTable(ctx context.Context, url string) (*table, error) {
	c, err := pgx.Connect(ctx, url)
	return &table{c}, err
}

func (t *table) close() { t.c.Close(context.Background()) }

func (t *table) fill(ctx context.Context, pieces int) error {
	if _, err := t.c.Exec(ctx, "CREATE TABLE leasehold_example_stock (n int NOT NULL, version bigint NOT NULL)"); err != nil {
		return err
	}
	_, err := t.c.Exec(ctx, "INSERT INTO leasehold_example_stock VALUES ($1, 0)", pieces)
	return err
}

func (t *table) drop(ctx context.Context) {
	t.c.Exec(ctx, "DROP TABLE leasehold_example_stock") // left behind, it makes the next fill fail and say so
}

func (t *table) read(ctx context.Context) (left int, err error) {
	return left, t.c.QueryRow(ctx, "SELECT n FROM leasehold_example_stock").Scan(&left)
}

func (t *table) write(ctx context.Context, left int) error {
	_, err := t.c.Exec(ctx, "UPDATE leasehold_example_stock SET n = $1", left)
	return err
}

// takeByStatement lets the database compute the new number, so no process works with an
// old one.
func (t *table) takeByStatement(ctx context.Context) (bool, error) {
	return optimistic.ChangedPgx(t.c.Exec(ctx, "UPDATE leasehold_example_stock SET n = n - 1 WHERE n > 0"))
}

type stock struct{ n, version int }

var errSoldOut = errors.New("sold out")

// takeByVersion is for a value that the database cannot compute: the write fails if the
// row has changed since the read.
func (t *table) takeByVersion(ctx context.Context) (bool, error) {
	row := optimistic.Row[stock]{
		Read: func(ctx context.Context) (s stock, err error) {
			return s, t.c.QueryRow(ctx, "SELECT n, version FROM leasehold_example_stock").Scan(&s.n, &s.version)
		},
		Write: func(ctx context.Context, old, next stock) (bool, error) {
			return optimistic.ChangedPgx(t.c.Exec(ctx,
				"UPDATE leasehold_example_stock SET n = $1, version = version + 1 WHERE version = $2", next.n, old.version))
		},
	}
	_, err := optimistic.Update(ctx, nil, row, func(s stock) (stock, error) {
		if s.n == 0 {
			return s, errSoldOut
		}
		s.n--
		return s, nil
	})
	if errors.Is(err, errSoldOut) {
		return false, nil
	}
	return err == nil, err
}
