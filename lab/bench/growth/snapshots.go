package main

import (
	"context"
	"database/sql"
	"errors"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// snapshot is a transaction that stays open, as that of a backup does, and sees the
// database as it was. It ends when it is closed.
type snapshot struct {
	db    *sql.DB
	conn  *sql.Conn
	count []string
}

func keepPostgres(url string) (*snapshot, error) {
	return keep("pgx", url, []string{"VACUUM ANALYZE"},
		"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1") // the first statement takes it
}

func keepMariaDB(addr string) (*snapshot, error) {
	return keep("mysql", "root@tcp("+addr+")/test", []string{"ANALYZE TABLE leasehold_names", "ANALYZE TABLE leasehold_claims"},
		"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT")
}

func keep(driver, dsn string, count []string, statements ...string) (_ *snapshot, err error) {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return nil, err
	}
	s := &snapshot{db: db, count: count}
	if s.conn, err = db.Conn(context.Background()); err == nil {
		for _, text := range statements {
			if _, err = s.conn.ExecContext(context.Background(), text); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// counted has the server count its rows, as it does by itself sooner or later.
func (s *snapshot) counted() (err error) {
	for _, text := range s.count {
		if _, err = s.db.Exec(text); err != nil {
			break
		}
	}
	return err
}

func (s *snapshot) Close() (err error) {
	if s.conn != nil {
		err = s.conn.Close()
	}
	return errors.Join(err, s.db.Close())
}
