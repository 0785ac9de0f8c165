package optimistic_test

import (
	"context"
	"errors"
	"fmt"

	"leasehold/optimistic"
)

// stock is a row with a version, and table a table of one such row: what database/sql
// does in a program.
type stock struct{ n, version int }

type table struct{ row stock }

func (t *table) read(context.Context) (stock, error) { return t.row, nil }

// write is UPDATE stock SET n = $1, version = version + 1 WHERE id = $2 AND version = $3.
func (t *table) write(_ context.Context, old, changed stock) (bool, error) {
	if t.row.version != old.version {
		return false, nil
	}
	t.row = stock{changed.n, old.version + 1}
	return true, nil
}

// Change a row without a lock: nothing is lost when another writer is faster.
func ExampleUpdate() {
	t := &table{stock{n: 3}}
	others := 1
	sold, err := optimistic.Update(context.Background(), nil, optimistic.Row[stock]{Read: t.read, Write: t.write},
		func(s stock) (stock, error) {
			if others > 0 { // another writer comes between this one's read and write
				others--
				_, _ = t.write(context.Background(), t.row, stock{n: t.row.n - 1})
			}
			s.n--
			return s, nil
		})
	fmt.Println(sold.n, err)
	// Output: 1 <nil>
}

// An error of change ends the update, and nothing is written.
func ExampleUpdate_refuse() {
	soldOut := errors.New("sold out")
	t := &table{}
	_, err := optimistic.Update(context.Background(), nil, optimistic.Row[stock]{Read: t.read, Write: t.write},
		func(s stock) (stock, error) {
			if s.n == 0 {
				return s, soldOut
			}
			s.n--
			return s, nil
		})
	fmt.Println(errors.Is(err, soldOut), t.row.version)
	// Output: true 0
}

// affected is what database/sql answers to an UPDATE.
type affected int64

func (r affected) RowsAffected() (int64, error) { return int64(r), nil }

// A condition in the statement needs no second attempt: the row was changed or it was not.
func ExampleChanged() {
	exec := func(query string, rows affected) (affected, error) { return rows, nil } // stands for db.ExecContext
	for _, rows := range []affected{1, 0} {
		sold, err := optimistic.Changed(exec("UPDATE stock SET n = n - 1 WHERE id = 42 AND n > 0", rows))
		fmt.Println(sold, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}
