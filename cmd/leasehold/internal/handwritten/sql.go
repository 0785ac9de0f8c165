package handwritten

import (
	"context"
	"database/sql"
	"time"
)

// UniqueRow keeps the lock as a row with a unique name, an owner and a count for re-entry.
// A sweeper deletes rows that are too old. The statements are PostgreSQL's.
//
// Wrong on purpose: the sweeper takes the row from the living too, and tells nobody.
type UniqueRow struct {
	DB    *sql.DB
	Name  string
	Owner string
}

// Table is what UniqueRow needs.
const Table = `CREATE TABLE locks (name text PRIMARY KEY, owner text NOT NULL, count int NOT NULL, updated timestamptz NOT NULL)`

func (l *UniqueRow) Lock(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		done, err := l.DB.ExecContext(ctx, `INSERT INTO locks VALUES ($1, $2, 1, now())
			ON CONFLICT (name) DO UPDATE SET count = locks.count + 1, updated = now() WHERE locks.owner = $2`, l.Name, l.Owner)
		if err != nil {
			return false, err
		}
		rows, err := done.RowsAffected()
		return rows == 1, err
	})
}

func (l *UniqueRow) Unlock(ctx context.Context) error {
	if _, err := l.DB.ExecContext(ctx, `UPDATE locks SET count = count - 1 WHERE name = $1 AND owner = $2`, l.Name, l.Owner); err != nil {
		return err
	}
	_, err := l.DB.ExecContext(ctx, `DELETE FROM locks WHERE name = $1 AND owner = $2 AND count <= 0`, l.Name, l.Owner)
	return err
}

// Sweep is the job beside it.
func Sweep(ctx context.Context, db *sql.DB, older time.Duration) error {
	_, err := db.ExecContext(ctx, `DELETE FROM locks WHERE updated < now() - $1 * interval '1 millisecond'`, older.Milliseconds())
	return err
}

// Version is the version column of articles, used around work that is not in the row: read
// the version, do the work, and write the row if the version is still the same. Work
// reports whether the row was written.
//
// Wrong on purpose: the loser has done its work too, and only the row is saved from it.
type Version struct {
	DB *sql.DB
	ID int
}

// VersionTable is what Version needs.
const VersionTable = `CREATE TABLE stock (id int PRIMARY KEY, n int NOT NULL, version bigint NOT NULL)`

func (v *Version) Work(ctx context.Context, work func(n int) (int, error)) (bool, error) {
	var n int
	var version int64
	if err := v.DB.QueryRowContext(ctx, `SELECT n, version FROM stock WHERE id = $1`, v.ID).Scan(&n, &version); err != nil {
		return false, err
	}
	n, err := work(n)
	if err != nil {
		return false, err
	}
	done, err := v.DB.ExecContext(ctx, `UPDATE stock SET n = $1, version = version + 1 WHERE id = $2 AND version = $3`, n, v.ID, version)
	if err != nil {
		return false, err
	}
	rows, err := done.RowsAffected()
	return rows == 1, err
}
