package pglock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
)

// bounds are from when on an examination reports something.
type bounds struct {
	transaction time.Duration // that is open
	lag         time.Duration // of a replica
	behind      int64         // bytes, of a replica
	dead        time.Duration // nobody wrote a table of locks
	nearly      float64       // of the connections
	unheard     float64       // of the queue of notifications
	silent      time.Duration // the server has answered nothing about one part
}

func usualBounds() bounds {
	return bounds{transaction: 5 * time.Minute, lag: 10 * time.Second, behind: 64 << 20, dead: time.Hour, nearly: 0.9, unheard: 0.5, silent: 25 * time.Second}
}

// Examine reports what is dangerous for locks in the database that a URL names, in the
// form of [Open]. It only reads: every statement runs in a transaction that is READ ONLY,
// for ten seconds at most, and no table is made. It calls found from the goroutine of its
// caller, the worst finding first.
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
	conn *pgx.Conn
}

func examine(ctx context.Context, rawURL string, o engine.ExamineOptions, b bounds, found func(engine.Finding)) error {
	config, _, err := parse(rawURL)
	if err != nil {
		return named(fmt.Errorf("%w: %w", engine.ErrURL, err))
	}
	x := examiner{List: findings.New(o), bounds: b}
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // behind any pooler
	if x.conn, err = pgx.ConnectConfig(ctx, config.ConnConfig); err != nil {
		return named(unmet(explain(err)))
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = x.conn.Close(ctx) // nothing was written
	}()
	for _, part := range []func(context.Context) error{x.settings, x.connections, x.transactions, x.notifications, x.replicas, x.tables} {
		if err := part(ctx); errors.Is(err, errSilent) || x.Late(ctx, err) {
			break
		} else if err != nil {
			return named(err)
		}
	}
	x.Report(found)
	return nil
}

// errSilent ends an examination of a server that hangs: its connection is gone.
var errSilent = errors.New("the server said nothing")

// read runs statements that only read. An error of the server is a part that was not
// read; any other one ends the examination.
func (x *examiner) read(ctx context.Context, part, right string, f func(context.Context, pgx.Tx) error) error {
	bounded, cancel := context.WithTimeout(ctx, x.silent)
	defer cancel()
	err := pgx.BeginTxFunc(bounded, x.conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(bounded, `SET LOCAL statement_timeout = '10s'; SET LOCAL lock_timeout = '1s'`); err != nil {
			return err
		}
		return f(bounded, tx)
	})
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		x.Unread(part, fmt.Errorf("the server said nothing for %v, and was not asked for more", x.silent), "")
		return errSilent
	}
	var said *pgconn.PgError
	if err == nil || !errors.As(err, &said) || x.conn.IsClosed() {
		return err
	}
	if said.Code != "42501" {
		right = "" // it did not refuse the user
	}
	x.Unread(part, err, right)
	return nil
}

// settings examines what a crash forgets, and whether the functions of leasehold run.
func (x *examiner) settings(ctx context.Context) error {
	var (
		pid                           uint32
		replica, readOnly, vacuums    bool
		version, fsync, commit, pages string
		isolation                     string
		number                        int
	)
	err := x.read(ctx, "the settings", "", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('default_transaction_read_only')::bool,
			current_setting('autovacuum')::bool, current_setting('server_version'), current_setting('server_version_num')::int, current_setting('fsync'),
			current_setting('synchronous_commit'), current_setting('full_page_writes'), current_setting('default_transaction_isolation')`).
			Scan(&pid, &replica, &readOnly, &vacuums, &version, &number, &fsync, &commit, &pages, &isolation)
	})
	if err != nil || version == "" {
		return err
	}
	if number < oldest {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "this PostgreSQL is too old",
			Means: "The functions of leasehold need version 12, and it refuses to open the database.",
			Do:    "Update the server.",
		}, "version %s", version)
	}
	if replica {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "this PostgreSQL is a replica",
			Means: "It takes no writes, so no lock works there.",
			Do:    "Connect to the primary, or name all hosts and add target_session_attrs=read-write.",
		}, "pg_is_in_recovery() is true")
	} else if readOnly {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "transactions only read",
			Means: "A program that connects as this user cannot lock.",
			Do:    "Set default_transaction_read_only to off for the role or the database.",
		}, "default_transaction_read_only is on")
	}
	if isolation != "read committed" {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "the default isolation is not READ COMMITTED",
			Means: "leasehold refuses such sessions. A hand-written lock that waits for a row and reads it then sees the row as it was before.",
			Do:    "Run ALTER ROLE ... SET default_transaction_isolation = 'read committed'.",
		}, "%s", isolation)
	}
	if fsync == "off" || pages == "off" {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a crash of the machine may damage the database",
			Means: "Commits and whole pages may be lost. Names are granted again that somebody holds, and tables may be unreadable.",
			Do:    "Set fsync and full_page_writes to on.",
		}, "fsync is %s, full_page_writes is %s", fsync, pages)
	}
	if commit == "off" || commit == "local" {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a commit is answered before it is safe",
			Means: "A crash, or with local a failover, takes back locks that a program was granted. leasehold sets this to on for its own calls.",
			Do:    "Set synchronous_commit to on, at least for the programs that lock by hand.",
		}, "synchronous_commit is %s", commit)
	}
	if !vacuums {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "autovacuum is off",
			Means: "Every lock and unlock leaves dead rows. They are never removed, and every call gets slower.",
			Do:    "Set autovacuum to on.",
		}, "autovacuum is off")
	}
	if pid != x.conn.PgConn().PID() {
		x.Add(engine.Finding{
			Severity: engine.SeverityNote, What: "a pooler stands in between",
			Means: "Where it shares connections between transactions, advisory locks and LISTEN belong to no program alone. leasehold works there and polls.",
			Do:    "Take no pg_advisory_lock through it, and give lock programs a direct address if hand-overs must be quick.",
		}, "the server process %d is not the one that greeted", pid)
	}
	return nil
}

// connections examines how many are left.
func (x *examiner) connections(ctx context.Context) error {
	var used, most int
	err := x.read(ctx, "the connections", "", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT coalesce(sum(numbackends), 0)::int,
			current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
				- coalesce(current_setting('reserved_connections', true)::int, 0) -- PostgreSQL 16 has it
			FROM pg_stat_database`).Scan(&used, &most)
	})
	if err == nil && float64(used) >= x.nearly*float64(most) && most > 0 {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "the connections of the database are nearly used up",
			Means: "A holder that must connect again is refused, cannot renew, and loses its lease.",
			Do:    "Raise max_connections, or put a pooler in front of the programs that open so many.",
		}, "%d of %d", used, most)
	}
	return err
}

// transactions examines those that are open for long.
func (x *examiner) transactions(ctx context.Context) error {
	err := x.read(ctx, "open transactions", "", func(ctx context.Context, tx pgx.Tx) error {
		var all bool
		if err := tx.QueryRow(ctx, `SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')`).Scan(&all); err != nil {
			return err
		}
		if !all {
			x.Unread("open transactions of other users", errors.New("the server does not show them"), "the role pg_read_all_stats")
		}
		rows, err := tx.Query(ctx, `SELECT 'process ' || pid || ' (' || coalesce(application_name, '') || ', ' || coalesce(state, '') || ')', extract(epoch FROM now() - xact_start)::float8
				FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
			UNION ALL SELECT 'prepared transaction ' || gid, extract(epoch FROM now() - prepared)::float8 FROM pg_prepared_xacts
			ORDER BY 2 DESC LIMIT 100`)
		if err != nil {
			return err
		}
		var who string
		var seconds float64
		_, err = pgx.ForEachRow(rows, []any{&who, &seconds}, func() error {
			if age := time.Duration(seconds * float64(time.Second)); age >= x.transaction {
				x.Add(engine.Finding{
					Severity: engine.SeverityWarning, What: "a transaction is open for long",
					Means: "It keeps vacuum from removing dead rows, so that locks get slower, and it keeps the rows that it locked.",
					Do:    "Find the program and end its transaction, or pg_terminate_backend it. Set idle_in_transaction_session_timeout.",
				}, "%s for %v", who, age.Round(time.Second))
			}
			return nil
		})
		return err
	})
	return err
}

// notifications examines how many wait for a session that listens and does not read them. Who that
// is the server does not show: it is one with a transaction, which a session that writes to a
// client that does not read has too.
func (x *examiner) notifications(ctx context.Context) error {
	var full float64
	var who string
	err := x.read(ctx, "the queue of notifications", "", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT pg_notification_queue_usage(), coalesce((
			SELECT ', and the oldest transaction is that of process ' || pid || ' (' || coalesce(application_name, '') || ', ' || coalesce(state, '') || ')'
			FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY xact_start LIMIT 1), '')`).
			Scan(&full, &who)
	})
	if err == nil && full >= x.unheard {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "the queue of notifications fills up",
			Means: "A session that listens keeps a transaction open, or its client does not read. When the queue is full, calls that notify fail, renewals among them, and leases are lost.",
			Do:    "Find that program and end its transaction, or pg_terminate_backend it. The server's log names its process too.",
		}, "%.0f %% full%s", 100*full, who)
	}
	return err
}

// replicas examines those that follow this server.
func (x *examiner) replicas(ctx context.Context) error {
	return x.read(ctx, "the replicas", "the role pg_read_all_stats", func(ctx context.Context, tx pgx.Tx) error {
		var waits string
		var alone bool
		// A client of logical replication may be a synchronous one. Without the right to see
		// which ones are, sync_state is NULL. The names may begin with how many of them a commit
		// waits for: FIRST 2 (a, b).
		if err := tx.QueryRow(ctx, `SELECT current_setting('synchronous_standby_names'),
			NOT pg_is_in_recovery() AND NOT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state IS NULL)
			AND (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'))
				< coalesce(substring(lower(current_setting('synchronous_standby_names')) FROM '^\s*(?:(?:first|any)\s+)?(\d+)\s*\(')::int, 1)`).Scan(&waits, &alone); err != nil {
			return err
		}
		if waits != "" && alone {
			x.Add(engine.Finding{
				Severity: engine.SeverityProblem, What: "too few synchronous replicas",
				Means: "Every commit waits for replicas that are not there, so no lock is granted, renewed or given back.",
				Do:    "Start them, let their application_name be one of those in synchronous_standby_names, or take them out of it.",
			}, "synchronous_standby_names is %q", waits)
		}
		rows, err := tx.Query(ctx, `SELECT application_name || coalesce(' at ' || host(client_addr), ''), coalesce(state, '?'), coalesce(extract(epoch FROM replay_lag), 0)::float8,
			coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, replay_lsn), 0)::bigint
			FROM pg_stat_replication r
			WHERE NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical') -- nobody promotes its reader
			LIMIT 100`)
		if err != nil {
			return err
		}
		var who, state string
		var seconds float64
		var behind int64
		_, err = pgx.ForEachRow(rows, []any{&who, &state, &seconds, &behind}, func() error {
			if waits == "" {
				x.Add(engine.Finding{
					Severity: engine.SeverityNote, What: "the replicas are asynchronous",
					Means: "A replica that is promoted may lack the last commits, and grants names again that somebody holds.",
					Do:    "Set synchronous_standby_names, or check fencing tokens. Say ?failover in the URL, so that the engine declares it.",
				}, "%s", who)
			}
			lag := time.Duration(seconds * float64(time.Second))
			if state != "streaming" && state != "?" && state != "backup" || lag >= x.lag || behind >= x.behind {
				x.Add(engine.Finding{
					Severity: engine.SeverityWarning, What: "a replica of the database lags",
					Means: "If it is promoted now, it lacks the newest locks, and grants these names again.",
					Do:    "Look at its log, its disk and the network. Do not promote it before it has caught up.",
				}, "%s is %s, %v and %d bytes behind", who, state, lag.Round(time.Millisecond), behind)
			}
			return nil
		})
		return err
	})
}
