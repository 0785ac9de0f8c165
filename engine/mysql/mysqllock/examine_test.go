package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

const note, warning, problem = engine.SeverityNote, engine.SeverityWarning, engine.SeverityProblem

func examined(t testing.TB, url string, b bounds) testutil.Findings {
	t.Helper()
	return testutil.Examined(t, func(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
		return examine(ctx, rawURL, o, b, found)
	}, url, engine.ExamineOptions{})
}

func ask(t testing.TB, s *servers.MariaDBServer, sql string) string {
	t.Helper()
	out, err := s.Query(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// wrote is what a server says of the statements that change something, and of its tables.
func wrote(t testing.TB, s *servers.MariaDBServer) string {
	t.Helper()
	return ask(t, s, `SELECT COUNT(*) FROM information_schema.TABLES; SHOW GLOBAL STATUS WHERE
		Variable_name IN ('Com_insert', 'Com_update', 'Com_delete', 'Com_create_table', 'Com_create_procedure', 'Innodb_rows_inserted', 'Innodb_rows_updated')`)
}

func TestExamineHealthy(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, nil)
	before := wrote(t, s)
	if f := testutil.Examined(t, Examine, s.URL("", ""), engine.ExamineOptions{}); len(f) > 0 {
		t.Errorf("a healthy server has %s", f)
	}
	if after := wrote(t, s); after != before {
		t.Errorf("the examination wrote:\n%s\n%s", before, after)
	}
	e := open(t, s.URL("", ""))
	join(t, e, exclusive("my lock"))
	if f := testutil.Examined(t, Examine, s.URL("", ""), engine.ExamineOptions{}); len(f) > 0 {
		t.Errorf("a server that locks has %s", f)
	}
}

func TestExamineSettings(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, &servers.MariaDBOptions{Args: []string{"--innodb-flush-log-at-trx-commit=2", "--read-only=ON", "--max-connections=12"}})
	f := examined(t, s.URL("", ""), usualBounds())
	f.Want(t, warning, "a crash takes back commits", "innodb_flush_log_at_trx_commit is 2")
	f.Want(t, problem, "this MySQL only reads")
	f.None(t, "the connections of MySQL are nearly used up")
	ask(t, s, `SET GLOBAL read_only = OFF; SET GLOBAL innodb_flush_log_at_trx_commit = `+synced())
	for range 10 { // besides the examination's
		if err := connect(t, s.URL("", "")).PingContext(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	f = examined(t, s.URL("", ""), usualBounds())
	f.Want(t, warning, "the connections of MySQL are nearly used up", " of 12")
	if len(f) != 1 {
		t.Errorf("it reports %s", f)
	}
}

func TestExamineTransactions(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, nil)
	ask(t, s, `CREATE TABLE test.t (i INT) ENGINE = InnoDB; INSERT INTO test.t VALUES (1);
		CREATE USER plain@'127.0.0.1'; CREATE USER plain@localhost; GRANT SELECT ON test.* TO plain@'127.0.0.1'; GRANT SELECT ON test.* TO plain@localhost`)
	tx, err := connect(t, s.URL("", "")).BeginTx(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`UPDATE t SET i = 2`); err != nil {
		t.Fatal(err)
	}
	b := usualBounds()
	for _, zone := range []string{"'+09:00'", "SYSTEM"} { // of other sessions; the transaction is as young
		ask(t, s, `SET GLOBAL time_zone = `+zone)
		examined(t, s.URL("", ""), b).None(t, "a transaction of InnoDB is open for long")
	}
	b.transaction = 0
	ask(t, s, `SET GLOBAL time_zone = '-09:00'`)
	examined(t, s.URL("", ""), b).Want(t, warning, "a transaction of InnoDB is open for long", "connection ")
	ask(t, s, `SET GLOBAL time_zone = SYSTEM`)
	examined(t, s.URL("", ""), b).Want(t, warning, "a transaction of InnoDB is open for long", "connection ")
	f := examined(t, s.URL("plain", ""), b)
	f.Want(t, note, "not read", "open transactions", "the status of replication")
	if servers.MySQLD() != "" { // which counts its replicas nowhere
		f.Want(t, note, "not read", "the replicas")
	}
	if !strings.Contains(f["not read"].Do, "PROCESS") {
		t.Errorf("no right is named: %+v", f["not read"])
	}
}

// A client that is gone leaves what it prepared, without a connection that could be killed.
func TestExamineFindsPreparedTransactionsWithoutAClient(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, nil)
	const heading = "a prepared transaction has no client"
	b := usualBounds()
	b.transaction = 0
	examined(t, s.URL("", ""), b).None(t, heading)
	ask(t, s, `CREATE TABLE test.t (i INT) ENGINE = InnoDB; INSERT INTO test.t VALUES (1)`)
	ask(t, s, `XA START 'lost'; UPDATE test.t SET i = 2; XA END 'lost'; XA PREPARE 'lost'`)
	testutil.Until(t, heading+", and nothing says so", func() bool { // the server may not have seen yet that the client is gone
		time.Sleep(120 * time.Millisecond) // it shows again what it found less than a tenth of a second ago
		_, lost := examined(t, s.URL("", ""), b)[heading]
		return lost
	})
	f := examined(t, s.URL("", ""), b)
	f.Want(t, warning, heading, "transaction ")
	f.None(t, "a transaction of InnoDB is open for long")
	examined(t, s.URL("", ""), usualBounds()).None(t, heading) // it is young
	ask(t, s, `XA ROLLBACK 'lost'`)
	examined(t, s.URL("", ""), b).None(t, heading)
}

// A client that gives up ends no statement: the server has to.
func TestExamineBoundsStatementsOnTheServer(t *testing.T) {
	t.Parallel()
	x := examiner{findings.New(engine.ExamineOptions{}), usualBounds(), connect(t, database(t))}
	var bound float64
	if err := x.read(within(t), "the bound", "", func(ctx context.Context, tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT @@SESSION.`+statementTime()).Scan(&bound)
	}); err != nil || bound < 10 {
		t.Errorf("a statement may take the server %v (0: for ever): %v", bound, err)
	}
}

func TestExamineReadsTheStatusOfReplication(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row  map[string]string
		lags bool
	}{
		"follows":        {map[string]string{"slave_io_running": "Yes", "slave_sql_running": "Yes", "seconds_behind_master": "0"}, false},
		"late":           {map[string]string{"replica_io_running": "Yes", "replica_sql_running": "Yes", "seconds_behind_source": "60"}, true},
		"stopped":        {map[string]string{"slave_io_running": "No", "slave_sql_running": "No", "seconds_behind_master": ""}, true},
		"a channel":      {map[string]string{"replica_io_running": "No", "replica_sql_running": "No", "seconds_behind_source": "", "channel_name": "other"}, true},
		"joined a group": {map[string]string{"replica_io_running": "No", "replica_sql_running": "No", "seconds_behind_source": "", "channel_name": "group_replication_recovery"}, false},
	} {
		x := examiner{findings.New(engine.ExamineOptions{}), usualBounds(), nil}
		x.follows(c.row)
		lags := false
		x.Report(func(engine.Finding) { lags = true })
		if lags != c.lags {
			t.Errorf("%s: it lags: %v", name, lags)
		}
	}
}

func TestExamineReplication(t *testing.T) {
	t.Parallel()
	primary := servers.MariaDBPrimary(t)
	ask(t, primary, `SET GLOBAL sync_binlog = 0`)
	examined(t, primary.URL("", ""), usualBounds()).Want(t, warning, "a crash takes back commits", "sync_binlog is 0")
	ask(t, primary, `SET GLOBAL sync_binlog = 1`)
	replica := primary.Replica(t, primary.Addr)
	testutil.Until(t, "the replica does not follow", func() bool {
		f := examined(t, primary.URL("", ""), usualBounds())
		_, follows := f["the replicas of MySQL are asynchronous"]
		return follows
	})
	examined(t, primary.URL("", ""), usualBounds()).Healthy(t, warning)
	testutil.Until(t, "the replica does not catch up", func() bool {
		_, lags := examined(t, replica.URL("", "mysql"), usualBounds())["this MySQL lags behind its primary"]
		return !lags
	})
	examined(t, replica.URL("", "mysql"), usualBounds()).Want(t, problem, "this MySQL only reads")
	late := usualBounds()
	late.lag = 0
	examined(t, replica.URL("", "mysql"), late).Want(t, warning, "this MySQL lags behind its primary", "IO thread Yes, SQL thread Yes")
	if err := primary.SemiSync(replica); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "a replica that acknowledges is asynchronous", func() bool {
		_, loses := examined(t, primary.URL("", ""), usualBounds())["the replicas of MySQL are asynchronous"]
		return !loses
	})
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	testutil.Until(t, "the replica goes on without its primary", func() bool {
		_, lags := examined(t, replica.URL("", "mysql"), usualBounds())["this MySQL lags behind its primary"]
		return lags
	})
}

func TestExamineTables(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, nil)
	ask(t, s, "USE test;"+`
		CREATE TABLE method_lock (name VARCHAR(64) PRIMARY KEY, taken TIMESTAMP NULL) ENGINE = InnoDB;
		INSERT INTO method_lock VALUES ('stock', NOW() - INTERVAL 3 DAY), ('pay', NOW() - INTERVAL 3 HOUR);
		CREATE TABLE `+"`Old ``Locks`"+` (i INT AUTO_INCREMENT PRIMARY KEY, at DATETIME, noted DATETIME) ENGINE = InnoDB;
		INSERT INTO `+"`Old ``Locks`"+` (at) SELECT NOW() - INTERVAL 30 HOUR FROM information_schema.COLLATIONS LIMIT 60;
		CREATE TABLE half_lock (i INT AUTO_INCREMENT PRIMARY KEY, at DATETIME) ENGINE = InnoDB;
		INSERT INTO half_lock (at) SELECT IF(ID % 2, NOW() - INTERVAL 1 DAY, NULL) FROM information_schema.COLLATIONS WHERE ID IS NOT NULL LIMIT 60;
		CREATE TABLE zero_lock (name VARCHAR(64), at DATETIME) ENGINE = InnoDB; INSERT INTO zero_lock VALUES ('go', '1000-01-01');
		CREATE TABLE live_lock (name VARCHAR(64), at DATETIME) ENGINE = InnoDB; INSERT INTO live_lock VALUES ('old', '2020-01-01'), ('new', NOW());
		CREATE TABLE free_lock (name VARCHAR(64), at DATETIME) ENGINE = InnoDB; INSERT INTO free_lock VALUES ('free', NULL);
		CREATE TABLE empty_lock (name VARCHAR(64), at DATETIME) ENGINE = InnoDB;
		CREATE TABLE shedlock (name VARCHAR(64), lock_until DATETIME, locked_at DATETIME) ENGINE = InnoDB; INSERT INTO shedlock VALUES ('job', '2020-01-01', '2020-01-01');
		CREATE TABLE orders (name VARCHAR(64), at DATETIME) ENGINE = InnoDB; INSERT INTO orders VALUES ('old', '2020-01-01');
		CREATE TABLE my_mutex (name VARCHAR(64)) ENGINE = MyISAM`)
	if servers.MySQLD() == "" { // MySQL has no such files
		broken := filepath.Join(strings.TrimSpace(ask(t, s, `SELECT @@datadir`)), "test", "broken_lock.frm")
		if err := os.WriteFile(broken, []byte("no table"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := testutil.Examined(t, Examine, s.URL("", ""), engine.ExamineOptions{Limit: 50})
	f.Want(t, warning, "rows of locks in MySQL that look dead", "`test`.`method_lock` has 2, the newest is 3h0m", "`test`.`zero_lock` has 1, the newest is more than ten years old")
	f.Want(t, note, "stopped at the limit", "50 rows of `test`.`Old ``Locks` were read, the newest of these is 30h0m", "50 rows of `test`.`half_lock` were read")
	f.Want(t, problem, "a table of locks is not InnoDB", "`test`.`my_mutex` is MyISAM")
	if servers.MySQLD() == "" {
		f.Want(t, problem, "a table of locks cannot be opened", "`test`.`broken_lock`: ", "broken_lock.frm")
	}
	for _, wrong := range []string{"live", "free", "empty", "shedlock", "orders"} {
		if strings.Contains(f.String(), wrong) {
			t.Errorf("%s is reported: %s", wrong, f)
		}
	}
	testutil.Examined(t, Examine, s.URL("", ""), engine.ExamineOptions{Names: []string{"ORD*"}}).
		Want(t, warning, "rows of locks in MySQL that look dead", "`test`.`orders` has 1")
}

func TestExamineJudgesAnEngineByItsTransactions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table lockTable
		want  string
	}{
		"InnoDB":   {lockTable{engine: "InnoDB", transactions: "YES"}, ""},
		"RocksDB":  {lockTable{engine: "ROCKSDB", transactions: "YES"}, ""},
		"NDB":      {lockTable{engine: "ndbcluster", transactions: "YES"}, ""},
		"unlisted": {lockTable{engine: "of tomorrow"}, ""},
		"MyISAM":   {lockTable{engine: "MyISAM", transactions: "NO"}, "a table of locks is not InnoDB"},
		"damaged":  {lockTable{comment: "Incorrect information in file"}, "a table of locks cannot be opened"},
	} {
		x := examiner{findings.New(engine.ExamineOptions{}), usualBounds(), nil}
		x.judge(&c.table)
		got := ""
		x.Report(func(f engine.Finding) { got = f.What })
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestExamineErrors(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]error{
		"mysql://h/d?hunter=1": engine.ErrURL, "mysql://h/d?prefix=" + strings.Repeat("x", 50): engine.ErrURL,
		"mysql://root@" + servers.Nobody + "/test":                  nil,
		"mysql://root@" + servers.Impostor(t, "tcp", nil) + "/test": context.DeadlineExceeded,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := Examine(ctx, url, engine.ExamineOptions{}, func(f engine.Finding) { t.Errorf("%s: %+v", url, f) })
		cancel()
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
