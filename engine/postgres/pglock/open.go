package pglock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine"
	"leasehold/engine/engineurl"
	"leasehold/engine/internal/sqllock"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters of the same name.
type Options struct {
	// Schema has the tables and functions: ?schema=. Clients share locks only if they
	// agree on it, and on Prefix. Default "leasehold"; up to 40 bytes.
	Schema string

	// Prefix begins the name of every table and function: ?prefix=. It is for a schema
	// that other programs share. Default none; up to 40 bytes.
	Prefix string

	// NoCreate makes [New] refuse a database without the tables, instead of creating them:
	// ?no-create.
	NoCreate bool

	// Failover declares that the address may lead to another server one day, which may not
	// have every commit: ?failover. The engine then declares that it may grant twice.
	// Several hosts imply it.
	Failover bool

	// Poll declares that no notification arrives, as behind a pooler that shares
	// connections between transactions: ?poll. Without it [New] finds that out itself: it
	// waits for a notification, for a second.
	Poll bool

	// Unlogged, if not 0, has new tables lie in memory (UNLOGGED): ?unlogged=1m. No commit
	// waits for the disk. A crash of the server, or a failover, ends every lease, and then
	// nothing is granted for that long. So it bounds every TTL. It is the tables' own: clients
	// without it keep to what the tables have, and [New] refuses tables that have another. See
	// the package documentation for a change. A second to engine.MaxTTL.
	Unlogged time.Duration
}

// leastUnlogged is the least of Options.Unlogged: what unlog in schema.sql takes.
const leastUnlogged = time.Second

// params are leasehold's parameters in a URL; the others belong to libpq and pgx.
var params = []string{"schema", "prefix", "no-create", "failover", "poll", "unlogged", "password-file"}

// allowed are settings of a session that a URL may have as parameters, as in libpq.
var allowed = []string{"application_name", "client_encoding", "options"}

// Open connects to the database that a URL names, and returns an engine on it:
//
//	postgres://user@host:5432/database?sslmode=verify-full
//
// Several hosts (host1:5432,host2:5432) with target_session_attrs=read-write find the
// primary. Parameters are those of libpq (sslmode, sslrootcert, passfile, connect_timeout,
// ...), of pgxpool (pool_max_conns, ...), [Options], and password-file=path. The
// environment (PGPASSWORD, ...) counts as with psql. Errors show no password. ctx bounds
// the opening only.
//
// These make Open fail:
//
//   - a malformed URL, or a server that cannot be reached;
//   - a wrong password, or a user without the rights that the engine needs;
//   - a database without the tables that the user may not create, or with other objects of
//     their names;
//   - a server that only reads, or is older than version 12;
//   - an isolation level other than READ COMMITTED.
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	config, o, err := parse(rawURL)
	if err != nil {
		return nil, named(fmt.Errorf("%w: %w", engine.ErrURL, err))
	}
	var own settings
	config.AfterConnect = own.set
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, named(err)
	}
	e, err := start(ctx, pool, o, &own)
	if err != nil {
		pool.Close()
		return nil, named(err)
	}
	return e, nil
}

func parse(rawURL string) (*pgxpool.Config, *Options, error) {
	if err := engineurl.Clear(rawURL); err != nil {
		return nil, nil, err
	}
	ours := url.Values{}
	base, query, _ := strings.Cut(rawURL, "?")
	var theirs []string
	for _, pair := range strings.Split(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if !slices.Contains(params, key) {
			if pair != "" {
				theirs = append(theirs, pair)
			}
			continue
		}
		value, err := url.QueryUnescape(value)
		if err != nil {
			return nil, nil, fmt.Errorf("the value of %s cannot be parsed: write special characters as %%xx", key)
		}
		ours.Add(key, value)
	}
	if len(theirs) > 0 {
		base += "?" + strings.Join(theirs, "&")
	}
	config, err := pgxpool.ParseConfig(base)
	if err != nil {
		return nil, nil, err
	}
	for _, pair := range theirs {
		key, _, _ := strings.Cut(pair, "=")
		// What pgx does not know it takes for a setting of the session, be it a parameter
		// with a letter too few.
		if _, setting := config.ConnConfig.RuntimeParams[key]; setting && !slices.Contains(allowed, key) {
			return nil, nil, fmt.Errorf("unknown parameter %q: known are %s, and those of libpq and pgxpool; give a setting of the session as options=-c%%20name%%3Dvalue",
				key, strings.Join(params, ", "))
		}
	}
	o := &Options{Schema: ours.Get("schema"), Prefix: ours.Get("prefix")}
	for key, to := range map[string]*bool{"no-create": &o.NoCreate, "failover": &o.Failover, "poll": &o.Poll} {
		if err := engineurl.Bool(ours, key, to); err != nil {
			return nil, nil, err
		}
	}
	if v := ours.Get("unlogged"); v != "" {
		if o.Unlogged, err = time.ParseDuration(v); err != nil {
			return nil, nil, fmt.Errorf("unlogged=%q is not a duration: give one such as 1m", v)
		}
	}
	// A value that New refuses makes the URL a wrong one, which no retry mends.
	if _, err := o.withDefaults(); err != nil {
		return nil, nil, err
	}
	if path := ours.Get("password-file"); path != "" {
		if config.ConnConfig.Password, err = engineurl.Secret(path); err != nil {
			return nil, nil, err
		}
	}
	c := config.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = greetBound // libpq's is none: Close must end
	}
	// pgx writes arguments into a statement only so, and a database or a role may have
	// other settings: SQL_ASCII, LATIN1.
	c.RuntimeParams["client_encoding"], c.RuntimeParams["standard_conforming_strings"] = "UTF8", "on"
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "leasehold" // in pg_stat_activity
	}
	return config, o, nil
}

// New is an engine on the caller's own pool, which the caller closes after the
// engine. It makes one connection beside those of the pool, as the pool makes them
// (BeforeConnect, AfterConnect), for its notifications. It asks the server whether
// it can do what is needed, as [Open] does. A nil o means the defaults.
func New(ctx context.Context, pool *pgxpool.Pool, o *Options) (*Engine, error) {
	e, err := start(ctx, pool, o, nil)
	return e, named(err)
}

// greetBound is how long a server may take until a connection to it stands. Of several
// each may take it.
const greetBound = 5 * time.Second

func named(err error) error {
	if err != nil {
		return fmt.Errorf("pglock: %w", err)
	}
	return nil
}

// start makes an engine on a pool, which is ours if there are settings.
func start(ctx context.Context, pool *pgxpool.Pool, o *Options, own *settings) (*Engine, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var id [12]byte
	rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	most := int(pool.Config().MaxConns)
	c := &client{
		pool: pool, conns: sqllock.NewPool(source{pool}, own != nil && most > 1), settings: own,
		opts: opts, calls: newCalls(&opts), channel: "leasehold_" + hex.EncodeToString(id[:]),
	}
	if err := c.meet(ctx); err != nil {
		c.conns.Close()
		return nil, err
	}
	e := &Engine{client: c, own: own != nil, Engine: sqllock.New(c, &c.conns.Claims, most, 0, c.guarantees)}
	return e, nil
}

// oldest is the first version that has all that the functions use, as
// server_version_num says it.
const oldest = 12_00_00

// meet asks the server what it is, and makes sure that it will do.
func (c *client) meet(ctx context.Context) error {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return unmet(explain(err))
	}
	var (
		pid               uint32
		replica, readonly bool
		isolation, fsync  string
		there, dated      bool
		number            int
		version           string
		patient           int
	)
	// In one statement, and not prepared: it works behind any pooler, and tells
	// whether there is one.
	err = conn.QueryRow(ctx, c.opts.in(`SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('transaction_read_only')::bool,
		current_setting('transaction_isolation'), current_setting('fsync'), to_regprocedure('@layout()') IS NOT NULL, to_regprocedure('@edition()') IS NOT NULL,
		current_setting('server_version_num')::int, current_setting('server_version'), `+patientFor),
		pgx.QueryExecModeSimpleProtocol).Scan(&pid, &replica, &readonly, &isolation, &fsync, &there, &dated, &number, &version, &patient)
	pooled := pid != conn.Conn().PgConn().PID()
	ours := err == nil && c.settings != nil && !pooled
	if ours && c.settings.mayWait(conn.Conn().Config()) {
		c.settings.patient.Store(true)
		patient = 0
	}
	hasty := patient > 0 && patient < int(leastPatience.Milliseconds())
	if ours && !hasty {
		err = c.settings.begin(ctx, conn.Conn())
	}
	conn.Release()
	switch {
	case err != nil:
		return explain(err)
	case number < oldest:
		return fmt.Errorf("this is PostgreSQL %s: update it to version %d or later", version, oldest/10000)
	case replica:
		return errors.New("this server is a replica: connect to the primary, or name all hosts and add target_session_attrs=read-write")
	case readonly:
		return errors.New("this user's transactions only read (default_transaction_read_only): allow them to write")
	case isolation != "read committed":
		return fmt.Errorf("transactions are %s here, and queues need READ COMMITTED: ALTER ROLE ... SET default_transaction_isolation = 'read committed'", strings.ToUpper(isolation))
	case hasty:
		return fmt.Errorf("statement_timeout, lock_timeout or transaction_timeout is %d ms for this user here, which ends calls that wait for each other: let each be %v or more, or 0", patient, leastPatience)
	case !there && c.opts.NoCreate:
		return errNoSchema(&c.opts, nil)
	case !there:
		if err := c.install(ctx); err != nil {
			return errNoSchema(&c.opts, err)
		}
	default:
		if err := c.renew(ctx, dated); err != nil {
			return err
		}
	}
	if pooled {
		c.mode = pgx.QueryExecModeExec
	}
	if c.opts.Poll || pooled && c.deaf(ctx) {
		c.poll = pollFirst
	}
	unlogged, err := c.able(ctx)
	if err == nil && c.opts.Unlogged != 0 && c.opts.Unlogged != unlogged {
		err = errUnlogged(&c.opts, unlogged)
	}
	// Without fsync a crash of the machine may lose anything, and without a log all tickets.
	c.guarantees = sqllock.Guarantees(c.opts.Failover || severalHosts(c.pool.Config().ConnConfig), fsync == "off" || unlogged != 0)
	c.guarantees.MaxTTL = unlogged
	return err
}

// errUnlogged: the tables are not what the options say. Nobody changes them in passing.
func errUnlogged(o *Options, is time.Duration) error {
	has := "are logged"
	if is != 0 {
		has = fmt.Sprintf("have unlogged=%v", is)
	}
	return fmt.Errorf("the tables in schema %q %s, and unlogged=%v was asked for: ask for what they have, or let their owner change them with %s",
		o.Schema, has, o.Unlogged, strings.TrimSpace(o.unlog()))
}

// renew makes sure that the functions are those that this client knows, or serve it, and
// replaces older ones. dated: they say which edition they are, as all but the first do.
func (c *client) renew(ctx context.Context, dated bool) error {
	sql := `SELECT @layout(), newest, oldest FROM @edition()`
	if !dated {
		sql = `SELECT @layout(), 1, 1`
	}
	var is, newest, oldest int
	err := c.pool.QueryRow(ctx, c.opts.in(sql), pgx.QueryExecModeSimpleProtocol).Scan(&is, &newest, &oldest)
	switch {
	case err != nil:
		return explain(err)
	case is != layout:
		return fmt.Errorf("schema %q has layout %d, and this version knows %d: update the older side, or choose another schema", c.opts.Schema, is, layout)
	case oldest > edition:
		return fmt.Errorf("the functions in schema %q serve clients of edition %d and later, and this is %d: update this program", c.opts.Schema, oldest, edition)
	case newest >= edition:
		return nil
	case c.opts.NoCreate:
		return errOlder(&c.opts, newest, nil)
	}
	err = c.install(ctx)
	switch {
	case inUse(err): // whose own words say what to do
		return errOlder(&c.opts, newest, err)
	case err != nil:
		return errOlder(&c.opts, newest, explain(err))
	}
	return nil
}

// able makes sure that the user may do what is needed, and that what has the names
// of our tables is ours.
func (c *client) able(ctx context.Context) (unlogged time.Duration, err error) {
	var may bool
	var micros int64
	err = c.row(ctx, c.calls.able, []any{&micros, &may})
	switch {
	case err != nil:
		return 0, err
	case !may:
		return 0, errRights(nil)
	}
	_, err = c.Batch(ctx, []engine.Renewal{{Name: "nobody"}})
	return sqllock.Micros(micros), err
}

func severalHosts(c *pgx.ConnConfig) bool {
	for _, f := range c.Fallbacks { // with and without TLS are two as well
		if f.Host != c.Host || f.Port != c.Port {
			return true
		}
	}
	return false
}
