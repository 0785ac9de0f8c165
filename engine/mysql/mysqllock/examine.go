package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
)

// bounds are from when on an examination reports something.
type bounds struct {
	transaction time.Duration // that is open
	lag         time.Duration // of a replica
	dead        time.Duration // nobody wrote a table of locks
	nearly      float64       // of the connections
}

func usualBounds() bounds {
	return bounds{transaction: 5 * time.Minute, lag: 10 * time.Second, dead: time.Hour, nearly: 0.9}
}

// statementBound is how long one statement of an examination may take.
const statementBound = 10 * time.Second

// Examine reports what is dangerous for locks in the database that a URL names, in the
// form of [Open]. It only reads: every statement runs in a transaction that is READ ONLY,
// and no table is made. It calls found from the goroutine of its caller, the worst finding
// first.
//
// Errors: a malformed URL, and a server that cannot be reached or refuses the user. A part
// that this user may not read is a finding.
func Examine(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	return examine(ctx, rawURL, o, usualBounds(), found)
}

// examiner is one examination.
type examiner struct {
	*findings.List
	bounds
	db *sql.DB
}

func examine(ctx context.Context, rawURL string, o engine.ExamineOptions, b bounds, found func(engine.Finding)) error {
	config, _, _, err := parse(rawURL)
	if err != nil {
		return named(fmt.Errorf("%w: %w", engine.ErrURL, err))
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return named(err)
	}
	x := examiner{findings.New(o), b, sql.OpenDB(greeted{connector, config.Timeout, config.Addr, make(chan struct{}, 1)})}
	defer x.db.Close()
	x.db.SetMaxOpenConns(1)
	if err := x.db.PingContext(ctx); err != nil {
		return named(explain(err))
	}
	for _, part := range []func(context.Context) error{x.settings, x.connections, x.transactions, x.replica, x.replicas, x.tables} {
		if err := part(ctx); x.Late(ctx, err) {
			break
		} else if err != nil {
			return named(err)
		}
	}
	x.Report(found)
	return nil
}

// read runs statements that only read. An error of the server, or a statement that takes
// too long, is a part that was not read; any other one ends the examination.
func (x *examiner) read(ctx context.Context, part, right string, f func(context.Context, *sql.Tx) error) error {
	bounded, cancel := context.WithTimeout(ctx, statementBound)
	defer cancel()
	tx, err := x.db.BeginTx(bounded, &sql.TxOptions{ReadOnly: true})
	if err == nil {
		if err = bound(bounded, tx); err == nil {
			err = f(bounded, tx)
		}
		_ = tx.Rollback() // nothing was written
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return err
	case code(err) == 0 && !errors.Is(err, context.DeadlineExceeded):
		return err
	}
	if c := code(err); c < 1044 || c > 1045 && c != 1142 && c != 1143 && c != 1227 && c != 1370 && c != 1401 {
		right = "" // it did not refuse the user
	}
	x.Unread(part, err, right)
	return nil
}

// bound has the server end a statement that takes too long: it works on for a client that
// has given up. MariaDB and MySQL have each a variable that the other does not know.
func bound(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`SET SESSION max_statement_time = %d`, statementBound/time.Second))
	if code(err) == 1193 {
		_, err = tx.ExecContext(ctx, fmt.Sprintf(`SET SESSION max_execution_time = %d`, statementBound/time.Millisecond)) // of a SELECT
	}
	if code(err) == 1193 {
		return nil
	}
	return err
}

// each calls f for every row, with its columns as text by their names in lower case.
func each(ctx context.Context, tx *sql.Tx, f func(map[string]string) error, query string) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, to := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		to[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		row := map[string]string{}
		for i, name := range names {
			row[strings.ToLower(name)] = values[i].String
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// settings examines what a crash forgets, and whether the procedures of leasehold run.
func (x *examiner) settings(ctx context.Context) error {
	var version, flush, binlog, sync, reads string
	err := x.read(ctx, "the settings", "", func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@log_bin, @@sync_binlog, @@read_only`).Scan(&version, &flush, &binlog, &sync, &reads)
	})
	if err != nil || version == "" {
		return err
	}
	if tooOld(version) {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "this MySQL is too old",
			Means: "The procedures of leasehold need MySQL 5.7 or MariaDB 10.6, and it refuses to open the database.",
			Do:    "Update the server.",
		}, "version %s", version)
	}
	if reads != "0" && reads != "OFF" {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "this MySQL only reads",
			Means: "It is a replica, or was set so. No lock works there, except for an administrator, who would grant what the primary grants too.",
			Do:    "Connect to the primary, or set read_only to OFF if this is the primary.",
		}, "read_only is %s", reads)
	}
	// MariaDB's 3 syncs as 1 does, and once more.
	if logs := binlog == "1" || binlog == "ON"; flush != "1" && flush != "3" || logs && sync != "1" {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a crash takes back commits",
			Means: "The server answers a commit before it is on the disk. After a crash it lacks the last grants, and names are granted again.",
			Do:    "Set innodb_flush_log_at_trx_commit to 1, and with a binary log sync_binlog to 1.",
		}, "innodb_flush_log_at_trx_commit is %s, log_bin is %s, sync_binlog is %s", flush, binlog, sync)
	}
	return nil
}

// connections examines how many are left.
func (x *examiner) connections(ctx context.Context) error {
	var used, most int
	err := x.read(ctx, "the connections", "", func(ctx context.Context, tx *sql.Tx) error {
		var name string
		if err := tx.QueryRowContext(ctx, `SHOW GLOBAL STATUS LIKE 'Threads_connected'`).Scan(&name, &used); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `SELECT @@max_connections`).Scan(&most)
	})
	if err == nil && most > 0 && float64(used) >= x.nearly*float64(most) {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "the connections of MySQL are nearly used up",
			Means: "A holder that must connect again is refused, cannot renew, and loses its lease.",
			Do:    "Raise max_connections, or bound the pools of the programs that open so many.",
		}, "%d of %d", used, most)
	}
	return err
}

// transactions examines those that are open for long.
func (x *examiner) transactions(ctx context.Context) error {
	var orphans [][2]string // without a connection, and their ages
	err := x.read(ctx, "open transactions", "PROCESS", func(ctx context.Context, tx *sql.Tx) error {
		return each(ctx, tx, func(row map[string]string) error {
			seconds, _ := strconv.ParseInt(row["age"], 10, 64)
			switch age := time.Duration(seconds) * time.Second; {
			case age < x.transaction:
			case row["id"] == "0":
				orphans = append(orphans, [2]string{row["trx"], age.String()})
			default:
				x.Add(engine.Finding{
					Severity: engine.SeverityWarning, What: "a transaction of InnoDB is open for long",
					Means: "It keeps the rows that it locked, and keeps InnoDB from removing old versions, so that locks get slower.",
					Do:    "Find the program and end its transaction, or KILL its connection.",
				}, "connection %s for %v", row["id"], age)
			}
			return nil
			// trx_started is in the system's zone, whatever the zone of the session is.
		}, `SELECT trx_mysql_thread_id AS id, trx_id AS trx, TIMESTAMPDIFF(SECOND, trx_started, CONVERT_TZ(UTC_TIMESTAMP(), '+00:00', 'SYSTEM')) AS age FROM information_schema.INNODB_TRX
			WHERE trx_mysql_thread_id <> CONNECTION_ID() AND (trx_mysql_thread_id <> 0 OR trx_state = 'RUNNING') ORDER BY age DESC LIMIT 100`)
	})
	if err != nil || len(orphans) == 0 {
		return err
	}
	// InnoDB has some of its own. XA RECOVER lists only prepared ones, also those of a client.
	return x.read(ctx, "prepared transactions", "XA_RECOVER_ADMIN", func(ctx context.Context, tx *sql.Tx) error {
		prepared := 0
		if err := each(ctx, tx, func(map[string]string) error { prepared++; return nil }, `XA RECOVER`); err != nil {
			return err
		}
		for _, o := range orphans[:min(len(orphans), prepared)] {
			x.Add(engine.Finding{
				Severity: engine.SeverityWarning, What: "a prepared transaction has no client",
				Means: "Its client is gone, or the server was started again. It keeps the rows that it locked, and there is no connection to KILL.",
				Do:    "Find it with XA RECOVER, ask its transaction manager, and run XA COMMIT or XA ROLLBACK on the primary.",
			}, "transaction %s for %s", o[0], o[1])
		}
		return nil
	})
}

// replica examines how far this server is behind the one that it follows.
func (x *examiner) replica(ctx context.Context) error {
	return x.read(ctx, "the status of replication", "REPLICATION CLIENT, or on MariaDB REPLICA MONITOR", func(ctx context.Context, tx *sql.Tx) error {
		err := each(ctx, tx, x.follows, `SHOW SLAVE STATUS`)
		if code(err) == 1064 { // since MySQL 8.4 it has another name
			err = each(ctx, tx, x.follows, `SHOW REPLICA STATUS`)
		}
		return err
	})
}

// follows examines one row of the status.
func (x *examiner) follows(row map[string]string) error {
	if row["channel_name"] == "group_replication_recovery" {
		return nil // it stays, and stands, when a member has joined its group
	}
	late, io, sql := oneOf(row, "seconds_behind_source", "seconds_behind_master"), oneOf(row, "replica_io_running", "slave_io_running"), oneOf(row, "replica_sql_running", "slave_sql_running")
	seconds, err := strconv.ParseInt(late, 10, 64)
	if err != nil || io != "Yes" || sql != "Yes" || time.Duration(seconds)*time.Second >= x.lag {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "this MySQL lags behind its primary",
			Means: "If it is promoted now, it lacks the newest locks, and grants these names again.",
			Do:    "Look at its error log and the network. Do not promote it before it has caught up.",
		}, "IO thread %s, SQL thread %s, %q seconds behind", io, sql, late)
	}
	return nil
}

func oneOf(row map[string]string, names ...string) string {
	for _, name := range names {
		if v, ok := row[name]; ok {
			return v
		}
	}
	return ""
}

// dumps is how many connections of MySQL send its binary log to a replica. Without PROCESS its
// list of connections is only shorter, but INNODB_TRX is refused.
func dumps(ctx context.Context, tx *sql.Tx) (n int, err error) {
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM information_schema.INNODB_TRX`).Scan(new(int)); err != nil {
		return 0, err
	}
	err = each(ctx, tx, func(row map[string]string) error {
		if strings.HasPrefix(row["command"], "Binlog Dump") {
			n++
		}
		return nil
	}, `SHOW PROCESSLIST`)
	return n, err
}

// replicas examines whether a commit waits for one.
func (x *examiner) replicas(ctx context.Context) error {
	return x.read(ctx, "the replicas", "PROCESS", func(ctx context.Context, tx *sql.Tx) error {
		count, counted, synced := 0, false, false
		err := each(ctx, tx, func(row map[string]string) error {
			n, _ := strconv.Atoi(row["value"])
			switch row["variable_name"] {
			case "Slaves_connected":
				count, counted = n, true
			case "Rpl_semi_sync_master_clients", "Rpl_semi_sync_source_clients":
				synced = n > 0
			}
			return nil
		}, `SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_connected', 'Rpl_semi_sync_master_clients', 'Rpl_semi_sync_source_clients')`)
		if err == nil && !counted { // MySQL counts them nowhere
			count, err = dumps(ctx, tx)
		}
		if err == nil && count > 0 && !synced {
			x.Add(engine.Finding{
				Severity: engine.SeverityNote, What: "the replicas of MySQL are asynchronous",
				Means: "A replica that is promoted may lack the last commits, and grants names again that somebody holds.",
				Do:    "Use semi-synchronous replication, or check fencing tokens. Say ?failover in the URL, so that the engine declares it.",
			}, "%d are connected", count)
		}
		return err
	})
}
