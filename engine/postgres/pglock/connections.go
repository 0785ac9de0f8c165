package pglock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine/internal/sqllock"
)

// source is a pool as package sqllock takes connections from it.
type source struct{ *pgxpool.Pool }

var _ sqllock.Source[*pgxpool.Conn] = source{}

func (s source) Take(ctx context.Context) (*pgxpool.Conn, error) { return s.Acquire(ctx) }
func (source) Give(c *pgxpool.Conn)                              { c.Release() }
func (source) Full(err error) bool                               { return code(err) == "53300" }

// Sound implements [sqllock.Source]. It ends a connection to a server that only reads: the next
// one may lead to the primary.
func (source) Sound(c *pgxpool.Conn, err error) bool {
	if code(err) == "25006" {
		bye(c.Conn())
	}
	return !c.Conn().IsClosed()
}

// Stands implements [sqllock.Source], as pgxpool does it for its own.
func (source) Stands(ctx context.Context, c *pgxpool.Conn, idle time.Duration) bool {
	return idle < time.Second || c.Ping(ctx) == nil
}

// unmet says what answered where no connection was made.
func unmet(err error) error {
	var op *net.OpError
	var failed *pgconn.ConnectError
	switch {
	case !errors.As(err, &failed) || code(err) != "" || errors.As(err, &op) && op.Op == "dial" && !op.Timeout():
		return err
	case errors.As(err, new(*net.DNSError)): // nobody knows the host, so nothing answered
		return err
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the server did not answer in time (%v, or connect_timeout): it is no PostgreSQL, hangs, or cannot be reached: %w", greetBound, err)
	case strings.Contains(err.Error(), "server refused TLS connection") && onlyTLS(failed.Config):
		return fmt.Errorf("this server has no TLS: give it a certificate, or leave sslmode out of the URL: %w", err)
	}
	return fmt.Errorf("the server does not speak as PostgreSQL does, or hung up: check the address: %w", err)
}

// onlyTLS reports whether no connection is made without TLS. By default one is, after the
// server has refused TLS, and then the error of that one counts.
func onlyTLS(c *pgconn.Config) bool {
	return c.TLSConfig != nil && !slices.ContainsFunc(c.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })
}

// leastPatience is what a server may at least give a statement. Less ends calls that wait
// for each other, again and again.
const leastPatience = time.Second

// patientFor is how long a statement may take, in milliseconds; 0: for ever.
const patientFor = `(SELECT coalesce(min(setting::int), 0) FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout') AND setting <> '0')`

// settings are what sessions of a pool of ours begin with, once meet has found that they are
// ours alone: behind a pooler they would stay in those of others.
type settings struct {
	ours    atomic.Bool
	patient atomic.Bool // statements take as long as their callers wait, whatever bound there is or will be
}

// mayWait is whether the caller's URL leaves the bounds of statements to us.
func (s *settings) mayWait(c *pgx.ConnConfig) bool {
	for _, bound := range []string{"statement_timeout", "lock_timeout", "transaction_timeout", "options"} {
		if c.RuntimeParams[bound] != "" {
			return false
		}
	}
	return true
}

// begin sets them in one session, and from now on in new ones.
func (s *settings) begin(ctx context.Context, c *pgx.Conn) error {
	s.ours.Store(true)
	return s.set(ctx, c)
}

// neverIdleOut has the server keep a session that does nothing. Before version 14 no server
// ends one, or knows the setting: then this sets nothing.
const neverIdleOut = `SELECT set_config('idle_session_timeout', '0', false) WHERE current_setting('idle_session_timeout', true) IS NOT NULL`

// unbounded does the same with the bound of a transaction, which servers know from version 17 on.
const unbounded = `SELECT set_config('transaction_timeout', '0', false) WHERE current_setting('transaction_timeout', true) IS NOT NULL`

// set is what a pool does with a new connection.
func (s *settings) set(ctx context.Context, c *pgx.Conn) error {
	if !s.ours.Load() {
		return nil
	}
	sql := `SET jit = off; SET enable_seqscan = off; ` + neverIdleOut // the first two: else each call does, see ready in schema.sql
	if s.patient.Load() {
		sql += `; SET statement_timeout = 0; SET lock_timeout = 0; ` + unbounded
	}
	_, err := c.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}
