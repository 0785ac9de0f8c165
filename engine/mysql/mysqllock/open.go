package mysqllock

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"leasehold/engine"
	"leasehold/engine/engineurl"
	"leasehold/engine/internal/sqllock"
	"leasehold/internal/mailbox"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters of the same name.
type Options struct {
	// Prefix begins the name of every table and procedure: ?prefix=. Clients share locks
	// only if they agree on it and on the database. Default "leasehold_"; up to 40 bytes. [New]
	// refuses one that differs from a prefix in use by case or accents alone: names of
	// procedures do not.
	Prefix string

	// NoCreate makes [New] refuse a database without the tables, instead of creating them:
	// ?no-create.
	NoCreate bool

	// Failover declares that the address may lead to another server one day, which may not
	// have every commit: ?failover. The engine then declares that it may grant twice.
	Failover bool

	// NoDoorbell has claims wait by polls alone: ?no-doorbell. [New] never has a doorbell:
	// see Waiting.
	NoDoorbell bool
}

const (
	// maxConns bounds the connections of a pool of Open, unless ?max-conns= does.
	maxConns = 10

	// idle is how long an unused connection stays open.
	idle = time.Minute

	// lockWait bounds, in seconds, how long a call of Open's pool waits for a row, or for
	// a table that a backup or an ALTER TABLE keeps locked. No server notices that a
	// caller that waits for a row has given up, and MySQL does not for a table. The
	// statement waits on, in a connection, and the next call makes another. The default
	// for a table is a day, or a year, enough to use up every connection that a server
	// has.
	lockWait = 3
)

// Open connects to the database that a URL names, and returns an engine on it:
//
//	mysql://user@host:3306/database?tls=true
//	mysql://user@/database?socket=path        a socket
//
// Parameters are:
//
//   - [Options], password-file=path, and max-conns=10;
//   - ca=path, cert=path and key=path, which mean tls=true;
//   - tls, timeout, readTimeout, writeTimeout, charset, collation, compress and
//     connectionAttributes of the driver;
//   - innodb_lock_wait_timeout and lock_wait_timeout of the sessions.
//
// Open refuses any other. The environment's MYSQL_PWD is the password of a URL without
// one. Errors show no password. ctx bounds the opening only.
//
// These make Open fail:
//
//   - a malformed URL, or a server that cannot be reached or is too old;
//   - a wrong password, or a user without the rights that the engine needs;
//   - a database without the tables that the user may not create, or with other objects of
//     their names;
//   - a prefix that differs from another one in the database by case or accents alone;
//   - a server that only reads, or sessions that do not commit by themselves.
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	config, conns, o, err := parse(rawURL)
	if err != nil {
		return nil, named(fmt.Errorf("%w: %w", engine.ErrURL, err))
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, named(err)
	}
	var b *bell
	if !o.NoDoorbell {
		if b, err = newBell(config, bellTime); err != nil {
			return nil, named(err)
		}
	}
	made := make(chan struct{}, 1)
	db := sql.OpenDB(greeted{connector, config.Timeout, config.Addr, made})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(idle)
	e, err := start(ctx, db, o, made, b)
	if err != nil {
		return nil, named(errors.Join(err, db.Close(), b.close()))
	}
	return e, nil
}

// What a URL may have beside what is ours: settings of the driver that only say how to
// reach a server, and two of sessions, of rows and of tables. Others would have the driver
// read files for a server, send the password as it is, or run what they say as SQL.
var (
	ours      = []string{"prefix", "no-create", "failover", "no-doorbell", "password-file", "max-conns", "socket", "ca", "cert", "key"}
	drivers   = []string{"tls", "timeout", "readTimeout", "writeTimeout", "charset", "collation", "connectionAttributes", "compress"}
	lockWaits = []string{"innodb_lock_wait_timeout", "lock_wait_timeout"}
)

func parse(rawURL string) (*mysql.Config, int, *Options, error) {
	u, err := engineurl.Parse(rawURL, "mysql", "mariadb")
	if err != nil {
		return nil, 0, nil, err
	}
	q := u.Params
	take := func(key string) string {
		v := q.Get(key)
		q.Del(key)
		return v
	}
	o := &Options{Prefix: take("prefix")}
	for key, to := range map[string]*bool{"no-create": &o.NoCreate, "failover": &o.Failover, "no-doorbell": &o.NoDoorbell} {
		if err := engineurl.Bool(q, key, to); err != nil {
			return nil, 0, nil, err
		}
		q.Del(key)
	}
	// A value that New refuses makes the URL a wrong one, which no retry mends.
	if _, err := o.withDefaults(); err != nil {
		return nil, 0, nil, err
	}
	conns := maxConns
	if v := take("max-conns"); v != "" {
		if conns, err = strconv.Atoi(v); err != nil || conns < 1 {
			return nil, 0, nil, errors.New("max-conns is not a number: give a number from 1 on")
		}
	}
	socket, passwordFile := take("socket"), take("password-file")
	files := url.Values{"ca": {take("ca")}, "cert": {take("cert")}, "key": {take("key")}}
	for key := range q {
		if wait := slices.Contains(lockWaits, key); !wait && !slices.Contains(drivers, key) {
			return nil, 0, nil, fmt.Errorf("unknown parameter %q: known are %s; a program that needs another gives its own pool to mysqllock.New", key, strings.Join(slices.Concat(ours, drivers, lockWaits), ", "))
		} else if _, err := strconv.ParseUint(q.Get(key), 10, 32); wait && err != nil {
			return nil, 0, nil, fmt.Errorf("%s is not a number of seconds: give one", key)
		}
	}
	c, err := mysql.ParseDSN("/?" + q.Encode()) // what is left is the driver's
	if err != nil {
		return nil, 0, nil, err
	}
	c.User, c.Passwd, c.DBName = u.User, u.Password, u.Path
	if socket != "" && (c.TLSConfig == "true" || files.Get("ca") != "" || files.Get("cert") != "" || files.Get("key") != "") {
		return nil, 0, nil, errors.New("a socket has no host that TLS could verify: leave tls, ca, cert and key out")
	}
	if c.Net, c.Addr = "unix", socket; socket == "" {
		hosts, err := u.Hosts("3306")
		if err != nil || len(hosts) > 1 {
			return nil, 0, nil, errors.New("the URL does not have one host: write mysql://user:password@host:3306/database, or ?socket=path")
		}
		c.Net, c.Addr = "tcp", hosts[0]
	}
	c.TLS = nil // it names the host of a URL without one: the connector makes it again from TLSConfig and Addr
	switch {
	case passwordFile != "":
		if c.Passwd, err = engineurl.Secret(passwordFile); err != nil {
			return nil, 0, nil, err
		}
	case c.Passwd == "":
		c.Passwd = os.Getenv("MYSQL_PWD")
	}
	if files.Get("ca") != "" || files.Get("cert") != "" || files.Get("key") != "" {
		if c.TLSConfig != "" && c.TLSConfig != "true" {
			return nil, 0, nil, fmt.Errorf("ca, cert and key mean tls=true, and this URL says tls=%s: leave it out", c.TLSConfig)
		}
		if c.TLS, err = engineurl.TLS(files); err != nil {
			return nil, 0, nil, err
		}
	}
	if c.Timeout == 0 {
		c.Timeout = greetBound // the driver's is the system's: minutes
	}
	c.Logger = &mysql.NopLogger{} // what it says, errors say
	if c.ConnectionAttributes == "" {
		c.ConnectionAttributes = "program_name:leasehold" // in performance_schema
	}
	if c.Params == nil {
		c.Params = map[string]string{}
	}
	for _, wait := range lockWaits {
		if c.Params[wait] == "" {
			c.Params[wait] = strconv.Itoa(lockWait)
		}
	}
	return c, conns, o, nil
}

// New is an engine on the caller's own pool, of the driver
// github.com/go-sql-driver/mysql, which the caller closes after the engine. No setting
// of the driver is needed; innodb_lock_wait_timeout=3 and lock_wait_timeout=3 in its DSN
// keep the server from waiting for long for a row or a table on behalf of callers who
// have given up. It asks the server whether it can do what is needed, as [Open] does. A
// nil o means the defaults.
func New(ctx context.Context, db *sql.DB, o *Options) (*Engine, error) {
	e, err := start(ctx, db, o, nil, nil)
	return e, named(err)
}

func named(err error) error {
	if err != nil {
		return fmt.Errorf("mysqllock: %w", err)
	}
	return nil
}

// start makes an engine on a pool, which is ours if it tells of new connections.
func start(ctx context.Context, db *sql.DB, o *Options, made <-chan struct{}, b *bell) (*Engine, error) {
	own := made != nil
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	most := db.Stats().MaxOpenConnections
	c := &client{db: db, conns: sqllock.NewPool(source{db}, own && most != 1), opts: opts, calls: newCalls(&opts), began: time.Now(), made: made, mail: mailbox.New()}
	rand.Read(c.id[:]) // never fails: crypto/rand ends the program instead
	if err := c.meet(ctx); err != nil {
		c.conns.Close()
		return nil, err
	}
	if b != nil {
		b.id, b.call, b.mail, b.packet = c.id, c.calls.bell, c.mail, c.packet-leastPacket/2
		c.bell = b
	}
	var calls sqllock.Database = c
	if !c.skips {
		calls = struct{ sqllock.Database }{c} // which is no Sharer: a shared call would wait for what somebody else has locked
	}
	e := &Engine{client: c, own: own, Engine: sqllock.New(calls, &c.conns.Claims, most, c.packet-leastPacket/2, c.guarantees)}
	return e, nil
}

// leastPacket is the least max_allowed_packet: two of the largest Join.
const leastPacket = 8 << 10

// settings are whether a server only reads, whether it answers before it stores, and the
// most bytes in a statement. With a binary log it is that log which says what was
// committed: InnoDB takes back what is not in it. MariaDB's 3 syncs as 1 does, and once more.
const settings = `@@read_only NOT IN ('0', 'OFF'), @@innodb_flush_log_at_trx_commit NOT IN (1, 3) OR @@log_bin AND @@sync_binlog <> 1, @@max_allowed_packet`

// meet asks the server what it is, and makes sure that it will do.
func (c *client) meet(ctx context.Context) error {
	var version string
	var database sql.NullString
	var autocommit, reads, forgets bool
	err := c.db.QueryRowContext(ctx, `SELECT VERSION(), DATABASE(), @@autocommit, `+settings).Scan(&version, &database, &autocommit, &reads, &forgets, &c.packet)
	switch {
	case err != nil:
		return explain(err)
	case !database.Valid:
		return errors.New("no database is chosen: name one, as in mysql://user@host/database")
	case !autocommit:
		return errors.New("autocommit is off, so statements that only read would see the same for ever: turn it on for this user's sessions")
	case tooOld(version):
		return fmt.Errorf("this server is %s: update it to MySQL 5.7, MariaDB 10.6 or later", version)
	case c.packet < leastPacket:
		return fmt.Errorf("max_allowed_packet is %d here, and a call may need %d: raise it", c.packet, leastPacket)
	case reads: // an administrator could write, and would grant what the primary grants too
		return errReads
	}
	c.skips = skips(version)
	if err := c.apart(ctx, c.db); err != nil {
		return err
	}
	is, err := c.layout(ctx, c.db)
	if errors.Is(err, errNoSchema) {
		if c.opts.NoCreate {
			return fmt.Errorf(todoSchema, c.opts.Prefix)
		}
		err = c.install(ctx)
		switch n := code(err); {
		case n == 1054 || n == 1136 || n == 1347: // a column that is not there, or too many; no view
			return fmt.Errorf("something else has a name with prefix %q: choose another prefix: %w", c.opts.Prefix, err)
		case errors.Is(err, errNotApart): // to run the SQL would be the harm
			return err
		case err != nil:
			return fmt.Errorf(todoSchema+": %w", c.opts.Prefix, err)
		}
		is, err = c.layout(ctx, c.db)
	}
	switch {
	case err != nil:
		return explain(err)
	case is != layout:
		return fmt.Errorf("the tables with prefix %q have layout %d, and this version knows %d: update the older side, or choose another prefix", c.opts.Prefix, is, layout)
	}
	// A crash of the machine may lose what was committed before.
	c.guarantees = sqllock.Guarantees(c.opts.Failover, forgets)
	if err := c.shape(ctx); err != nil {
		return err
	}
	if err := c.renew(ctx); err != nil {
		return err
	}
	_, err = c.one(ctx, c.calls.try)
	return err
}

// renew makes sure that the procedures are those that this client knows, or serve it, and
// replaces older ones.
func (c *client) renew(ctx context.Context) error {
	newest, oldest, err := c.edition(ctx, c.db)
	switch {
	case err != nil:
		return explain(err)
	case oldest > edition:
		return fmt.Errorf("the procedures with prefix %q serve clients of edition %d and later, and this is %d: update this program", c.opts.Prefix, oldest, edition)
	case newest >= edition:
		return nil
	}
	older := fmt.Errorf("the procedures of leasehold with prefix %q are edition %d, older than this program's %d: run the SQL of `leasehold schema mysql` as a user who may replace them; running programs go on", c.opts.Prefix, newest, edition)
	if c.opts.NoCreate {
		return older
	}
	if err := c.install(ctx); err != nil {
		return fmt.Errorf("%w: %w", older, err)
	}
	return nil
}

// shape makes sure of what no statement would complain about: tables that have no
// transactions, and names that a collation compares.
func (c *client) shape(ctx context.Context) error {
	var right int
	err := c.db.QueryRowContext(ctx, literal(`SELECT COUNT(*) FROM information_schema.COLUMNS c
		JOIN information_schema.TABLES t ON t.TABLE_SCHEMA = c.TABLE_SCHEMA AND t.TABLE_NAME = c.TABLE_NAME
		WHERE c.TABLE_SCHEMA = DATABASE() AND t.ENGINE = 'InnoDB' AND c.DATA_TYPE IN ('varbinary', 'binary')
		AND (c.TABLE_NAME IN (?, ?) AND c.COLUMN_NAME = 'name' OR c.TABLE_NAME = ? AND c.COLUMN_NAME = 'id')`,
		[]byte(c.opts.Prefix+"names"), []byte(c.opts.Prefix+"claims"), []byte(c.opts.Prefix+"claims"))).Scan(&right)
	if err != nil {
		return explain(err)
	}
	if right != 3 {
		return fmt.Errorf("the tables with prefix %q are not leasehold's, or not InnoDB's: compare them with the SQL of `leasehold schema mysql`, or choose another prefix", c.opts.Prefix)
	}
	return nil
}

func tooOld(version string) bool { return older(version, [2]int{5, 7}, [2]int{10, 6}) }

// skips is whether a server knows SKIP LOCKED.
func skips(version string) bool { return !older(version, [2]int{8, 0}, [2]int{10, 6}) }

// older is whether a version (8.0.36, 10.11.6-MariaDB-1, or 5.5.5-10.5.12-MariaDB) is before
// one of MySQL, or of MariaDB. What it cannot read is not: a server with versions of its own.
func older(version string, than, mariadb [2]int) bool {
	if strings.Contains(version, "MariaDB") {
		than, version = mariadb, strings.TrimPrefix(version, "5.5.5-")
	}
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < than[0] || major == than[0] && minor < than[1]
}
