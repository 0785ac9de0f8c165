package pglock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"leasehold/engine"
)

// layout is the number of the tables and types in schema.sql. A client that finds another
// refuses. edition is that of its functions: who finds an older one replaces it.
const layout, edition = 1, 6

// schema has @ where the schema and the prefix that were chosen go.
//
//go:embed schema.sql
var schema string

// object is a table or function in schema.sql and in our calls.
var object = regexp.MustCompile(`@(\w+)`)

// in is SQL for the tables and functions of one schema and prefix.
func (o *Options) in(sql string) string {
	return object.ReplaceAllStringFunc(sql, func(name string) string {
		return pgx.Identifier{o.Schema, o.Prefix + name[1:]}.Sanitize()
	})
}

// Schema returns the SQL that makes the tables and functions, for psql or a migration. Run
// it once in a database, and again for a version of this package with newer functions. The
// command "leasehold schema postgres" prints it. It may run at any time, even while locks
// are held. [Open] and [New] run it themselves if it is needed and the user may. A nil o
// means the defaults. With Unlogged it rewrites the tables, which needs a moment in which few
// locks are held: for half a second it waits for others, and fails.
func Schema(o *Options) (string, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return "", err
	}
	return "BEGIN;\n" + opts.create() + opts.unlog() + "COMMIT;\n", nil
}

func (o *Options) create() string {
	create := "CREATE SCHEMA IF NOT EXISTS " + pgx.Identifier{o.Schema}.Sanitize() + ";\n\n"
	return create + o.in(schema)
}

// unlog has the tables lie in memory if that was chosen.
func (o *Options) unlog() string {
	if o.Unlogged == 0 {
		return ""
	}
	return o.in(fmt.Sprintf("\nSELECT @unlog('%d microseconds');\n", o.Unlogged.Microseconds()))
}

const (
	// installs is how often a client tries to replace what is older while a transaction
	// elsewhere keeps its tables. In the pause between them the calls of others go on.
	installs     = 3
	installPause = 500 * time.Millisecond
)

// install creates what is missing and replaces what is older. Two clients that come
// first at the same time do it one after the other: the second finds it done.
func (c *client) install(ctx context.Context) error {
	for made := 1; ; made++ {
		err := c.installNow(ctx)
		if !inUse(err) || made == installs {
			return err
		}
		select {
		case <-time.After(installPause):
		case <-ctx.Done():
			return err
		}
	}
}

// inUse: somebody else has locked what was to be changed, and did not give it up in time.
func inUse(err error) bool { return code(err) == "55P03" }

func (c *client) installNow(ctx context.Context) error {
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // what counts is the commit
	// Not prepared: PgBouncer's servers would not know it. Any number does that
	// nobody else uses.
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(7813587352145921)", pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	// By a table of the catalogue: to_regprocedure would answer by what this session
	// remembers from before it waited.
	const there = `SELECT EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname = $1 AND proname = $2)`
	var found bool
	if err := tx.QueryRow(ctx, there, pgx.QueryExecModeSimpleProtocol, c.opts.Schema, c.opts.Prefix+"edition").Scan(&found); err != nil {
		return err
	}
	if found {
		var newest int
		if err := tx.QueryRow(ctx, c.opts.in(`SELECT newest FROM @edition()`), pgx.QueryExecModeSimpleProtocol).Scan(&newest); err != nil || newest >= edition {
			return err
		}
	}
	sql := c.opts.create()
	if !found { // what others use stays as it is
		sql += c.opts.unlog()
	}
	if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// checkIdentifier refuses a name of a schema or prefix that PostgreSQL would cut off,
// which would make two of them one, or that would end the text of a function or a
// string in which it stands.
func checkIdentifier(what, s string) error {
	const most = 40 // of 63: names of tables and functions follow a prefix
	if len(s) > most || strings.ContainsAny(s, "\x00'") || strings.Contains(s, "$$") {
		return fmt.Errorf("the %s %q has %d bytes: it may have %d, and no NUL, ' or $$", what, s, len(s), most)
	}
	return nil
}

func (o *Options) withDefaults() (Options, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if opts.Schema == "" {
		opts.Schema = "leasehold"
	}
	if d := opts.Unlogged; d != 0 && (d < leastUnlogged || d > engine.MaxTTL) {
		return opts, fmt.Errorf("unlogged=%v is outside %v to %v: give a time in between", d, leastUnlogged, engine.MaxTTL)
	}
	return opts, errors.Join(checkIdentifier("schema", opts.Schema), checkIdentifier("prefix", opts.Prefix))
}
