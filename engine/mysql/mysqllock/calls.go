package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"leasehold/engine/internal/sqllock"
)

// calls are the statements of one prefix. Each is one round trip and, but for those
// that only read, one transaction.
type calls struct{ join, batch, share, bell, ring, revoke, try, line, lines string }

// clock is the server's, where there is no variable to put it in.
const clock = `TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))`

// place is a claim as inspection reads it: without what is secret.
const place = `SELECT ` + clock + `, n.name, n.lim, n.upto, c.ticket, c.owner, c.units, c.deadline, c.asked, c.detached, c.evicted
	FROM @claims c JOIN @names n ON n.name = c.name `

func newCalls(o *Options) calls {
	return calls{
		join:   o.in(`CALL @join(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		batch:  o.in(`CALL @batch(?)`),
		share:  o.in(`CALL @share(?, ?)`),
		bell:   o.in(`CALL @bell(?, ?, ?)`),
		ring:   o.in(`CALL @ring(?)`),
		revoke: o.in(`CALL @evict(?, ?, ?)`),
		try:    o.in(`CALL @try()`),
		line:   o.in(place + `WHERE c.name = ? ORDER BY c.ticket`),
		lines: o.in(place + `JOIN (SELECT DISTINCT name FROM @claims WHERE name >= x'01' AND name > ? AND name >= ? AND (? IS NULL OR name < ?) ORDER BY name LIMIT 200) some_names
			ON some_names.name = c.name ORDER BY c.name, c.ticket`),
	}
}

// literal writes a statement's arguments into it: bytes as hexadecimal digits, which
// mean the same in every character set and sql_mode, and numbers. A statement that has
// no parameters needs no preparing, so that it is one round trip on any connection,
// whatever the pool's settings and whatever stands between.
func literal(statement string, args ...any) string {
	var b strings.Builder
	for _, a := range args {
		before, after, _ := strings.Cut(statement, "?")
		b.WriteString(before)
		switch a := a.(type) {
		case []byte:
			if a == nil {
				b.WriteString("NULL")
			} else {
				fmt.Fprintf(&b, "x'%x'", a)
			}
		default: // numbers and booleans
			fmt.Fprint(&b, a)
		}
		statement = after
	}
	b.WriteString(statement)
	return b.String()
}

// attempts is how often a call is made that has left nothing: it is made again as it
// was, with the same claim ID.
const attempts = 20

// waits is how often that is, in place of attempts, where each may have waited for a row
// for as long as the server lets it. Conflicts come at once, and in a row: Galera ends
// calls of many that contend for one name more than three times, even on one server.
const waits = 3

// replacing is how long a call waits that found no procedure.
const replacing = 10 * time.Millisecond

// call makes a call that answers with n numbers; below 0: with any number of them. Its
// answer comes after its commit: an error means that nothing was learned.
func (c *client) call(ctx context.Context, k sqllock.Kind, statement string, n int, args ...any) ([]int64, error) {
	statement = literal(statement, args...)
	var text string
	var err error
	for made := 1; made <= attempts; made++ {
		err = c.conns.Do(ctx, k, func(conn *sql.Conn) error { return c.answered(ctx, conn, statement, &text) })
		if err == errRing {
			err = nil
		}
		if code(err) == 1305 { // the procedure is being replaced, or gone
			select {
			case <-time.After(replacing):
				continue
			case <-ctx.Done():
			}
		}
		if !undone(err) || code(err) == 1205 && made >= waits {
			break
		}
	}
	if err != nil {
		return nil, explain(err)
	}
	fields := strings.Fields(text)
	if n >= 0 && len(fields) != n {
		return nil, fmt.Errorf("%w: %d numbers, not %d", errAnswer, len(fields), n)
	}
	numbers := make([]int64, len(fields))
	for i, f := range fields {
		if numbers[i], err = strconv.ParseInt(f, 10, 64); err != nil {
			return nil, fmt.Errorf("%w: %w", errAnswer, err)
		}
	}
	return numbers, nil
}

// ringBound is how long a call waits for its rings. A KILL waits for locks that the server's
// connections begin and end with. Who is not rung polls.
const ringBound = 250 * time.Millisecond

// answered reads what a call answers, and then rings. What becomes of a ring is no error of
// the call, which has committed: were a Leave made again for it, the claim would seem lost.
func (c *client) answered(ctx context.Context, conn *sql.Conn, statement string, text *string) error {
	rows, err := conn.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		return cmp.Or(rows.Err(), errAnswer)
	}
	if err := rows.Scan(text); err != nil {
		return err
	}
	var bells []byte
	if rows.NextResultSet() && rows.Next() && rows.Scan(&bells) == nil {
		rows.Close()
		bounded, cancel := context.WithTimeout(ctx, ringBound)
		defer cancel()
		if _, err := conn.ExecContext(bounded, literal(c.calls.ring, bells)); err != nil {
			return errRing
		}
	}
	return nil
}

// errRing: the call was answered and its ring failed, so the next call gets another connection.
// This one may have been ended, which the driver does not know of a statement that says so.
var errRing = errors.New("the ring failed")

var errAnswer = errors.New("unexpected answer of leasehold's functions in the database (did somebody change them?)")

// one makes a call that answers with one number.
func (c *client) one(ctx context.Context, statement string, args ...any) (int64, error) {
	n, err := c.call(ctx, sqllock.Other, statement, 1, args...)
	if err != nil {
		return 0, err
	}
	return n[0], nil
}

// discard keeps a connection out of its pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // which is what it then says
}

func code(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// undone: a deadlock, which the servers of a cluster find at commit; a lock that was
// not given in time; a connection that was found broken before anything was sent.
func undone(err error) bool {
	return code(err) == 1213 || code(err) == 1205 || errors.Is(err, driver.ErrBadConn)
}

// ended: the server ended a statement or a connection that did nothing wrong.
func ended(err error) bool {
	switch code(err) {
	case 1053, 1317, 1927, 1969, 3024, 4031:
		return true
	}
	return false
}

const todoSchema = "the database has no tables of leasehold with prefix %q: run the SQL of `leasehold schema mysql` as a user who may create them"

var errReads = errors.New("this server only reads: it is a replica, or has become one: connect to the primary")

func errRights(err error) error {
	return fmt.Errorf("this user may not do what is needed: grant it the rights in the package's documentation: %w", err)
}

// explain says what to do about an error.
func explain(err error) error {
	if errors.Is(err, mysql.ErrNoTLS) {
		return fmt.Errorf("this server has no TLS: give it a certificate, or leave tls, ca, cert and key out of the URL: %w", err)
	}
	switch err { // as it is: what wraps it says more
	case mysql.ErrInvalidConn, driver.ErrBadConn:
		return fmt.Errorf("the connection ended before the answer, and the call may have been carried out: look into the server's log, and at what stands between: %w", err)
	case context.DeadlineExceeded:
		return fmt.Errorf("no answer in time: the server is overloaded or hangs, all connections of this client were in use, or somebody keeps rows of leasehold locked (information_schema.INNODB_TRX): %w", err)
	}
	if ended(err) {
		return fmt.Errorf("the server ended this call, which may have been carried out, for somebody's KILL, a limit such as max_statement_time, or its own end: look into its log: %w", err)
	}
	switch code(err) {
	case 1205:
		return fmt.Errorf("somebody keeps a row or a table of leasehold locked: find the transaction in information_schema.INNODB_TRX, and end it: %w", err)
	case 1213:
		return fmt.Errorf("this call met others and was rolled back, %d times: let all clients use one server of a cluster: %w", attempts, err)
	case 1044, 1142, 1143, 1370:
		return errRights(err)
	case 1040, 1203, 1226:
		return fmt.Errorf("this server takes no more connections, in all or of this user: raise max_connections, or the limit of this user: %w", err)
	case 1153:
		return fmt.Errorf("max_allowed_packet has become smaller than a call: raise it to %d or more: %w", leastPacket, err)
	case 1264, 1690, 1643, 1048:
		return fmt.Errorf("%w: %w", sqllock.ErrRows, err)
	case 1568:
		return fmt.Errorf("a transaction is open in a session of this pool: leave completion_type at NO_CHAIN: %w", err)
	case 1290, 1792, 1836:
		return fmt.Errorf("%w: %w", errReads, err)
	case 1146, 1305, 1054, 1136, 1318, 1366, 1364:
		return fmt.Errorf("the tables or procedures of leasehold are gone or changed: compare them with the SQL of `leasehold schema mysql`: %w", err)
	case 1665:
		return fmt.Errorf("this server's binlog_format is STATEMENT, with which READ COMMITTED cannot write: set it to ROW or MIXED: %w", err)
	}
	return err
}
