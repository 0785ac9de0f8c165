package mysqllock

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

func refused(t *testing.T, url, want string) { t.Helper(); rows.Refused(t, url, want) }

// as is a URL for another user, who is made anew.
func as(t *testing.T, url, user string) string {
	t.Helper()
	query(t, fmt.Sprintf("DROP USER IF EXISTS %[1]s@localhost; CREATE USER %[1]s@localhost", user))
	return strings.Replace(url, "root@", user+"@", 1)
}

func TestADatabaseThatWillNotDoIsRefused(t *testing.T) {
	t.Parallel()
	url := database(t)
	name := url[strings.LastIndex(url, "/")+1:]
	admin := connect(t, url)
	asApp := as(t, url, "app_refused")

	refused(t, url+"?no-create", "leasehold schema mysql")
	refused(t, asApp, "may not do what is needed")
	query(t, fmt.Sprintf("GRANT SELECT ON %s.* TO app_refused@localhost", name))
	refused(t, asApp, "run the SQL of `leasehold schema mysql`")
	refused(t, url+"?prefix="+strings.Repeat("x", 41), "may have 40")
	refused(t, url+"?prefix=a%60b", "may have 40")
	refused(t, url+"?prefix=a%3Fb", "may have 40")
	if _, err := New(within(t), sessions(t, url, "autocommit=0"), nil); err == nil || !strings.Contains(err.Error(), "autocommit is off") {
		t.Errorf("without autocommit: %v", err)
	}
	refused(t, url+"?failover=perhaps", "true or false")
	refused(t, url+"?max-conns=none", "a number from 1")
	refused(t, url+"nosuch", "Unknown database")
	refused(t, strings.TrimSuffix(url, name), "no database is chosen")

	do(t, admin, `CREATE TABLE old_swept AS SELECT 0 AS layout`)
	refused(t, url+"?prefix=old_", "have layout 0")
	do(t, admin, `UPDATE old_swept SET layout = 1`)
	refused(t, url+"?prefix=old_", "not leasehold's")
	do(t, admin, `CREATE TABLE other_names (name VARCHAR(100) PRIMARY KEY)`)
	refused(t, url+"?prefix=other_", "choose another prefix")

	open(t, url)
	refused(t, asApp, "may not do what is needed")
	do(t, admin, `ALTER TABLE @claims ENGINE = MyISAM`)
	refused(t, url, "InnoDB")
	do(t, admin, `ALTER TABLE @claims ENGINE = InnoDB`)
	do(t, admin, `ALTER TABLE @names MODIFY name VARCHAR(512) NOT NULL`)
	refused(t, url, "not leasehold's")
	do(t, admin, `ALTER TABLE @names MODIFY name VARBINARY(512) NOT NULL`)
	do(t, admin, `ALTER TABLE @claims DROP COLUMN detached`)
	refused(t, url, "gone or changed")
}

func TestAServerThatOnlyReadsIsRefused(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, nil)
	e := open(t, s.URL("", ""))
	for _, sql := range []string{
		"CREATE USER app@localhost", "GRANT ALL ON test.* TO app@localhost", "SET GLOBAL read_only = ON",
	} {
		if _, err := s.Query(sql); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, s.URL("app", ""), "only reads")
	refused(t, s.URL("app", "")+"?prefix=other_", "only reads") // and makes no tables
	refused(t, s.URL("root", ""), "only reads")                 // though this user may write
	if c := join(t, e, exclusive("a")); c.State != engine.Held {
		t.Errorf("who may write nevertheless is told %v", c.State)
	}
}

// What a session has for isolation, time zone and so on does not count.
func TestSettingsOfASessionDoNotMatter(t *testing.T) {
	t.Parallel()
	url := database(t)
	openOn(t, sessions(t, url, "sql_mode='"+oddModes()+"'")) // who makes the procedures, which keep a mode
	if n := get[int](t, connect(t, url), `SELECT COUNT(*) FROM information_schema.ROUTINES
		WHERE ROUTINE_SCHEMA = DATABASE() AND SQL_MODE NOT LIKE 'STRICT_ALL_TABLES%'`); n != 0 {
		t.Errorf("%d procedures have the mode of the session that made them", n)
	}
	rows.Sweep(t, url)
	for _, setting := range []string{
		transaction("isolation") + "='SERIALIZABLE'", transaction("isolation") + "='READ-UNCOMMITTED'", transaction("read_only") + "=1", "time_zone='-11:30'",
		"sql_mode='" + oddModes() + "'", "sql_mode=''", "character_set_connection=utf16",
		"sql_safe_updates=1", "completion_type=CHAIN",
	} {
		a, b := openOn(t, sessions(t, url, setting)), open(t, url)
		first, second := join(t, a, exclusive(setting)), join(t, b, exclusive(setting))
		if first.State != engine.Held || second.State != engine.Waiting || second.Ticket <= first.Ticket {
			t.Errorf("%s: %v, %v", setting, first, second)
		}
		if l, err := a.Queue(within(t), setting); err != nil || len(l.Claims) != 2 || l.Claims[0].TTL <= 0 {
			t.Errorf("%s: %v, %v", setting, l, err)
		}
		if s := leave(t, a, first); s != engine.Held {
			t.Errorf("%s: it was %v", setting, s)
		}
		if c := renew(t, b, second, engine.MinTTL); c.State != engine.Held {
			t.Errorf("%s: the second is %v", setting, c.State)
		}
		if c := join(t, a, exclusive(setting)); c.State != engine.Waiting { // on a connection that has made calls
			t.Errorf("%s: the third is %v", setting, c.State)
		}
	}
}

// The grants in the package documentation are enough, and no more than what they say:
// who has them neither makes the tables nor drops them.
func TestTheGrantsOfTheDocumentationAreEnough(t *testing.T) {
	t.Parallel()
	url := database(t)
	name := url[strings.LastIndex(url, "/")+1:]
	text, err := Schema(nil)
	if err != nil {
		t.Fatal(err)
	}
	query(t, "USE "+name+";\n"+text) // as it is printed, for the server's own program
	asApp, asOperator := as(t, url, "app"), as(t, url, "operator")
	for _, grant := range sqltest.Grants(t) {
		query(t, strings.NewReplacer("ON locks.", "ON "+name+".", "PROCEDURE locks.", "PROCEDURE "+name+".", ";", "@localhost").Replace(grant))
	}
	a, b := open(t, asApp+"?no-create"), open(t, asApp+"?no-create")
	first, second := join(t, a, exclusive("a")), join(t, b, exclusive("a"))
	renew(t, b, second, engine.MaxTTL)
	if leave(t, a, first) != engine.Held {
		t.Error("the first did not hold")
	}
	if err := a.Revoke(within(t), "a", second.Ticket, false); err != nil {
		t.Error(err)
	}
	do(t, connect(t, asApp), `CALL @sweep('')`)
	if leave(t, b, second) != engine.Gone {
		t.Error("the second was revoked, and did not end")
	}

	third := join(t, a, exclusive("b"))
	operator := connect(t, asOperator)
	if got := get[string](t, operator, `SELECT CONCAT(name, ' ', state, ' ', ticket) FROM @line WHERE deadline_utc > UTC_TIMESTAMP(6)`); got != fmt.Sprint("b held ", third.Ticket) {
		t.Errorf("the operator sees %q", got)
	}
	if _, err := operator.ExecContext(within(t), defaults.in(`SELECT id FROM @claims`)); err == nil {
		t.Error("the operator sees secrets")
	}
}

// Creating the schema leaves the sessions of a caller's pool as they were.
func TestSessionsKeepTheirMode(t *testing.T) {
	t.Parallel()
	db := connect(t, database(t))
	db.SetMaxOpenConns(1)
	mode := func() (mode string) {
		if err := db.QueryRowContext(within(t), `SELECT @@sql_mode`).Scan(&mode); err != nil {
			t.Fatal(err)
		}
		return mode
	}
	before := mode()
	e, err := New(within(t), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if after := mode(); after != before {
		t.Errorf("sql_mode is %q, and was %q", after, before)
	}
}

// What a lost connection left of a schema is completed, whichever statement was the
// last.
func TestASchemaThatIsHalfMadeIsCompleted(t *testing.T) {
	t.Parallel()
	for _, made := range []int{1, 4, len(defaults.statements()) - 1} {
		url := database(t)
		db := connect(t, url)
		for _, statement := range defaults.statements()[:made] {
			if _, err := db.ExecContext(within(t), statement); err != nil {
				t.Fatal(err)
			}
		}
		if c := join(t, open(t, url), exclusive("a")); c.State != engine.Held {
			t.Errorf("after %d statements: %v", made, c.State)
		}
	}
}

func TestWhatIsDeclared(t *testing.T) {
	t.Parallel()
	url := database(t)
	if g := open(t, url).Guarantees(); g != sqllock.Guarantees(false, false) {
		t.Errorf("%+v", g)
	}
	if g := open(t, url+"?failover").Guarantees(); g.Failover != engine.FailoverMayDouble || g.Fencing != engine.FencingMemory {
		t.Errorf("with failover: %+v", g)
	}
	s := servers.MariaDB(t, &servers.MariaDBOptions{Args: []string{"--innodb-flush-log-at-trx-commit=2"}})
	if g := open(t, s.URL("", "")).Guarantees(); g.Fencing != engine.FencingMemory || g.Failover != engine.FailoverNone {
		t.Errorf("of a server that stores later than it answers: %+v", g)
	}
	if servers.MySQLD() == "" { // MySQL has no 3
		ask(t, s, `SET GLOBAL innodb_flush_log_at_trx_commit = 3`)
		if g := open(t, s.URL("", "")).Guarantees(); g != sqllock.Guarantees(false, false) {
			t.Errorf("of a server that syncs twice: %+v", g)
		}
	}
	s = servers.MariaDB(t, &servers.MariaDBOptions{Args: []string{"--log-bin=log", "--server-id=1", "--sync-binlog=0"}})
	if g := open(t, s.URL("", "")).Guarantees(); g.Fencing != engine.FencingMemory {
		t.Errorf("of a server that stores its log later than it answers: %+v", g)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"5.6.51": true, "5.7.44-log": false, "8.0.36": false, "8.4.0": false, "9.1.0-commercial": false,
		"10.5.29-MariaDB": true, "5.5.5-10.5.12-MariaDB-1:10.5.12": true, "5.5.5-10.6.18-MariaDB": false, "10.11.19-MariaDB-0+deb12u1": false, "11.4.2-MariaDB": false,
		"unknown": false,
	} {
		if got := tooOld(version); got != want {
			t.Errorf("%s is too old: %v", version, got)
		}
	}
}

// MySQL 5.7 does not know SKIP LOCKED, so calls share nothing there.
func TestVersionsThatSkipWhatIsLocked(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"5.7.44-log": false, "8.0.36": true, "9.1.0-commercial": true, "5.5.5-10.6.18-MariaDB": true, "11.4.2-MariaDB": true} {
		if got := skips(version); got != want {
			t.Errorf("%s skips what is locked: %v", version, got)
		}
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	c, conns, o, err := parse("mysql://me:a%2fb@h/d?prefix=x&failover&tls=true&max-conns=3&timeout=3s&innodb_lock_wait_timeout=7&lock_wait_timeout=9")
	if err != nil {
		t.Fatal(err)
	}
	if c.User != "me" || c.Passwd != "a/b" || c.Addr != "h:3306" || c.DBName != "d" || c.TLSConfig != "true" || conns != 3 ||
		o.Prefix != "x" || !o.Failover || o.NoCreate || c.Params["innodb_lock_wait_timeout"] != "7" || c.Params["lock_wait_timeout"] != "9" {
		t.Errorf("%+v %d %+v", c, conns, o)
	}
	for tls, verifies := range map[string]bool{"true": true, "1": true, "skip-verify": false, "preferred": false} {
		c, _, _, err := parse("mysql://me@h/d?tls=" + tls)
		if err != nil || c.TLSConfig == "" || verifies && c.TLS != nil || c.AllowFallbackToPlaintext != (tls == "preferred") {
			t.Errorf("tls=%s: the connector does not take the name from the address: %+v, %v", tls, c, err)
		}
	}
	if c, _, _, err := parse("mysql://me@[::1]:33/d"); err != nil || c.Addr != "[::1]:33" {
		t.Errorf("%+v, %v", c, err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, _, _, err := parse("mysql://me@h/d?password-file=" + file); err != nil || c.Passwd != "sesame" || c.Params["innodb_lock_wait_timeout"] != "3" || c.Params["lock_wait_timeout"] != "3" {
		t.Errorf("%+v, %v", c, err)
	}
	if c, _, _, err := parse("mysql://me@/d?socket=/run/s"); err != nil || c.Net != "unix" || c.Addr != "/run/s" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Nobody listens there, so the error is of the URL.
func TestBadURLs(t *testing.T) {
	t.Parallel()
	for params, want := range map[string]string{
		"prefix=" + strings.Repeat("x", 41): "may have 40", "prefix=a%3Fb": "may have 40",
		"failover=perhaps": "true or false", "max-conns=0": "a number from 1", "prefx=a": "unknown parameter",
		"socket=/run/s&tls=true": "no host that TLS could verify", "socket=/run/s&ca=/etc/ca": "no host that TLS could verify",
	} {
		_, err := Open(within(t), "mysql://root@"+servers.Nobody+"/test?"+params)
		if !errors.Is(err, engine.ErrURL) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an engine.ErrURL that says %q", params, err, want)
		}
	}
}

func TestErrorsShowNoPassword(t *testing.T) {
	rows.ErrorsShowNoPassword(t,
		"mysql://me:sesame@127.0.0.1:1/d", "mysql://me:se/same@h/d", "mysql://me:sesame@h:port/d", "mysql://me:sesame@h/d?failover=x",
		"mysql://me:sesame@h/d?tls=same%zz", "mysql:me:sesame@h/d", "mysql://me:se%same@h/d")
}

func TestManyCreateTheSchemaAtOnce(t *testing.T) { rows.ManyCreateTheSchemaAtOnce(t) }

func TestPrefix(t *testing.T) {
	rows.ClientsMeetWhoseTablesAreTheSame(t, "prefix=x", "prefix=a%22b%40c%24d")
}

// Names of tables differ by case and by accents, and names of procedures do not: clients of one
// such prefix would call what decides by the tables of another.
func TestPrefixesThatWouldShareProceduresAreRefused(t *testing.T) {
	t.Parallel()
	url := database(t)
	const asked, other = "app_", "App_"
	e := open(t, url+"?prefix="+asked)
	held := join(t, e, testutil.Lasting("a", engine.MaxTTL))
	for _, prefix := range []string{other, "%C3%84pp_"} {
		refused(t, url+"?prefix="+prefix, `are those of prefix "app_"`)
		refused(t, url+"?no-create&prefix="+prefix, `are those of prefix "app_"`) // and does not say that the SQL should be run
	}
	// What a client does that looked before the other made them.
	late := &client{db: connect(t, url), opts: Options{Prefix: other}}
	if err := late.install(within(t)); !errors.Is(err, errNotApart) {
		t.Errorf("a client that comes at the same time installs: %v", err)
	}
	if c := renew(t, e, held, engine.MinTTL); c.State != engine.Held {
		t.Errorf("the holder's claim is %v", c.State)
	}
	open(t, url+"?prefix="+asked+"&no-create") // they are its own still
	open(t, url+"?prefix=my"+asked)

	// Somebody runs the SQL all the same: then the tables of the first prefix have no procedures.
	made := Options{Prefix: other}
	for _, statement := range made.statements() {
		do(t, connect(t, url), statement)
	}
	refused(t, url+"?prefix="+asked, `are those of prefix "App_"`)
}
