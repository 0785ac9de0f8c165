package competitors

import (
	"context"
	"database/sql"
	"errors"

	_ "github.com/go-sql-driver/mysql" // the driver of the baselines

	"leasehold/lab/bench/harness"
)

// mysqlPool is database/sql as it comes, but for the connections that it keeps: two
// would be made anew all the time.
func mysqlPool(at harness.Endpoint) (*sql.DB, error) {
	db, err := sql.Open("mysql", "root@tcp("+at.Addrs[0]+")/test?interpolateParams=true")
	if err == nil {
		db.SetMaxOpenConns(10)
		db.SetMaxIdleConns(10)
	}
	return db, err
}

// MySQLStatements is the least that a lock and unlock in MySQL can be: two commits of
// one row each. It excludes nobody.
func MySQLStatements() harness.Competitor {
	return harness.Competitor{
		Name:     "two UPDATEs",
		Baseline: true,
		About:    "a row's UPDATE in place of the lock and another in place of the unlock, in one round trip each",
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			db, err := mysqlPool(at)
			return mysqlStatements{db}, err
		},
	}
}

type mysqlStatements struct{ *sql.DB }

func (s mysqlStatements) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	const update = "UPDATE floor SET v = v + 1 WHERE k = ?"
	done, err := s.ExecContext(ctx, update, name)
	if err == nil {
		var n int64
		if n, err = done.RowsAffected(); err == nil && n == 0 { // once for each name
			_, err = s.ExecContext(ctx, "INSERT INTO floor VALUES (?, 0)", name)
		}
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		_, err := s.ExecContext(context.Background(), update, name)
		return err
	}, nil
}

// GetLock is the lock of MySQL itself: it ends with its connection, which is pinned for
// as long as somebody waits or holds.
func GetLock() harness.Competitor {
	return harness.Competitor{
		Name: "GET_LOCK", Baseline: true,
		Waits: "in the server, on a connection of its own",
		About: "GET_LOCK of the name, on a connection that it keeps from the pool until RELEASE_LOCK: no lease, no token",
		Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			db, err := mysqlPool(at)
			if err == nil {
				db.SetMaxOpenConns(0)
			}
			return getLock{db}, err
		},
	}
}

type getLock struct{ *sql.DB }

func (g getLock) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	conn, err := g.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var got sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", name).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = errors.New("not within a minute")
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close()) // the driver has closed what was cut off
	}
	return func() error {
		defer conn.Close()
		err := conn.QueryRowContext(context.Background(), "SELECT RELEASE_LOCK(?)", name).Scan(&got)
		if err == nil && got.Int64 != 1 {
			err = errors.New("it was not locked")
		}
		return err
	}, nil
}
