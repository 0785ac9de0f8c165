package pglock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine/internal/sqllock"
)

// calls are the statements of one schema. Each is one round trip and one
// transaction.
type calls struct {
	join, share, revoke, line, lines, able, check string
	renew, leave                                  several
}

// several is a call for several claims, and the cheaper one for one, with the same
// arguments.
type several struct{ all, one string }

const reply = `(reply).state, (reply).contended, (reply).evicted, (reply).ticket, (reply).units, (reply).lim, (reply).ttl, (reply).look`

// none is a reply before a procedure has made it.
const none = `0, false, false, 0::int8, 0, 0, 0::int8, 0::int8`

// place is a claim as inspection reads it: without what is secret.
const place = `SELECT (SELECT @clock()), n.name, n.lim, n.upto, c.ticket, c.owner, c.units, c.deadline, c.asked, c.detached, c.evicted
	FROM @claims c JOIN @names n ON n.name = c.name `

func newCalls(o *Options) calls {
	return calls{
		join: o.in(`CALL @joins($1::bytea, $2::bytea, $3::text, $4::bytea, $5::int4, $6::int4, $7::int8, $8::bool, $9::bool, $10::bytea, '', 0, ` + none + `)`),
		share: o.in(`SELECT i, ` + reply + ` FROM @share($1::bytea[], $2::bytea[], $3::bool[], $4::text, $5::bytea[], $6::int4[], $7::int4[],
			$8::int8[], $9::bool[])`),
		renew: several{
			all: o.in(`SELECT i, ` + reply + ` FROM @renew($1::bytea[], $2::bytea[], $3::int8[])`),
			one: o.in(`SELECT 1, * FROM @renewing(($1::bytea[])[1], ($2::bytea[])[1], ($3::int8[])[1], true)`),
		},
		leave: several{
			all: o.in(`SELECT i, ` + reply + ` FROM @leave($1::bytea[], $2::bytea[])`),
			one: o.in(`CALL @leaves(($1::bytea[])[1], ($2::bytea[])[1], 1, ` + none + `)`),
		},
		revoke: o.in(`SELECT @evict($1::bytea, $2::int8, $3::bool)`),
		line:   o.in(place + `WHERE c.name = $1::bytea ORDER BY c.ticket`),
		lines: o.in(place + `WHERE c.name IN (SELECT DISTINCT name FROM @claims
			WHERE name >= '\x01' AND name > $1::bytea AND name >= $2::bytea AND ($3::bytea IS NULL OR name < $3::bytea) ORDER BY name LIMIT 200) ORDER BY c.name, c.ticket`),
		check: o.in(`SELECT pg_is_in_recovery(), current_setting('transaction_read_only')::bool, current_setting('fsync')::bool, @unlogged()`),
		able: o.in(`SELECT @unlogged(), bool_and(has_table_privilege(t, p)) AND has_table_privilege('@swept', 'SELECT') AND has_table_privilege('@swept', 'UPDATE')
				AND (@unlogged() = 0 OR has_table_privilege('@swept', 'INSERT') AND has_table_privilege(to_regclass('@memory'), 'SELECT')
					AND has_table_privilege(to_regclass('@memory'), 'INSERT'))
			FROM unnest(ARRAY['@names', '@claims']) t, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) p`),
	}
}

// attempts is how often a call is made whose transaction the server rolled back for
// the sake of another: a deadlock with a transaction that is not ours, or with an
// operator's. It has left nothing, so it is made again as it was, a moment later: else
// it could take the same lock again before the one it was rolled back for does.
const (
	attempts = 3
	moment   = 20 * time.Millisecond
)

// query makes a call and hands each row to scan. An error of it means that nothing
// was learned: also one that comes after the last row, when the commit failed or its
// answer was lost.
func (c *client) query(ctx context.Context, k sqllock.Kind, sql string, scan func(pgx.Rows) error, begin func(), args ...any) error {
	if c.mode != 0 {
		args = append([]any{c.mode}, args...)
	}
	var err error
	for i := range attempts {
		begin()
		err = c.conns.Do(ctx, k, func(conn *pgxpool.Conn) error { return once(ctx, conn, sql, args, scan) })
		if !rolledBack(err) || i == attempts-1 {
			break
		}
		select {
		case <-time.After(moment):
		case <-ctx.Done():
			return explain(err)
		}
	}
	return explain(err)
}

func once(ctx context.Context, conn *pgxpool.Conn, sql string, args []any, scan func(pgx.Rows) error) error {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// row makes a call that answers with one row.
func (c *client) row(ctx context.Context, sql string, to []any, args ...any) error {
	return c.rowOf(ctx, sqllock.Other, sql, to, args...)
}

func (c *client) rowOf(ctx context.Context, k sqllock.Kind, sql string, to []any, args ...any) error {
	found := false
	err := c.query(ctx, k, sql, func(r pgx.Rows) error {
		found = true
		return r.Scan(to...)
	}, func() {}, args...)
	if err == nil && !found {
		err = errors.New("unexpected answer of leasehold's functions in the database (did somebody change them?): no row")
	}
	return err
}

func code(err error) string {
	var p *pgconn.PgError
	if errors.As(err, &p) {
		return p.Code
	}
	return ""
}

// undone reports whether the server said that a call has changed nothing. One that ends a
// connection may say so after the commit.
func undone(err error) bool {
	var p *pgconn.PgError
	return errors.As(err, &p) && p.SeverityUnlocalized == "ERROR"
}

// rolledBack: serialization_failure, deadlock_detected.
func rolledBack(err error) bool { return code(err) == "40001" || code(err) == "40P01" }

func errNoSchema(o *Options, err error) error {
	const todo = "the database has no tables of leasehold in schema %q: run the SQL of `leasehold schema postgres` as a user who may create them"
	switch {
	case err == nil:
		return fmt.Errorf(todo, o.Schema)
	case code(err) == "42P07", code(err) == "42710", code(err) == "42723": // a table, type, function of that name
		return fmt.Errorf("schema %q has something else of that name: choose another schema or prefix: %w", o.Schema, err)
	}
	return fmt.Errorf(todo+": %w", o.Schema, err)
}

func errOlder(o *Options, is int, err error) error {
	const todo = "the functions of leasehold in schema %q are edition %d, older than this program's %d: run the SQL of `leasehold schema postgres` as their owner; running programs go on"
	if err == nil {
		return fmt.Errorf(todo, o.Schema, is, edition)
	}
	return fmt.Errorf(todo+": %w", o.Schema, is, edition, err)
}

func errRights(err error) error {
	const todo = "this user may not do what is needed: grant it the rights in the package's documentation"
	if err == nil {
		return errors.New(todo)
	}
	return fmt.Errorf(todo+": %w", err)
}

// explain says what to do about an error.
func explain(err error) error {
	switch code(err) {
	case "":
		return err
	case "42501":
		return errRights(err)
	case "53300":
		return fmt.Errorf("this server takes no more connections, in all or of this user: raise max_connections, or the limit of this user: %w", err)
	case "22003", "22P02", "22021", "23502", "23514", "LH003":
		return fmt.Errorf("%w: %w", sqllock.ErrRows, err)
	case "57014", "55P03", "25P04":
		return fmt.Errorf("the server ended this call early: a statement_timeout, lock_timeout or transaction_timeout passed, or somebody cancelled it (pg_cancel_backend); let each time-out be %v or more, or 0, and ask again: %w", leastPatience, err)
	case "25006":
		return fmt.Errorf("this server only reads: it is a replica, or has become one; connect to the primary: %w", err)
	case "42883", "42P01", "3F000", "42703", "42704", "42804", "42601":
		return fmt.Errorf("the tables or functions of leasehold are gone or changed: compare them with the SQL of `leasehold schema postgres`: %w", err)
	}
	return err
}
