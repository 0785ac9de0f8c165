package pglock

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	"leasehold/engine/internal/sqllock/sqltest"
)

// first is what the first edition had for schema.sql.
//
//go:embed testdata/edition1.sql
var first string

var editions = sqltest.Editions{
	First: func(t testing.TB, url string) {
		do(t, connect(t, url), `CREATE SCHEMA leasehold`)
		if _, err := connect(t, url).Exec(within(t), defaults.in(first)); err != nil {
			t.Fatal(err)
		}
	},
	Say: func(t testing.TB, url string, newest, oldest int) {
		do(t, connect(t, url), fmt.Sprintf(`CREATE OR REPLACE FUNCTION @edition(OUT newest integer, OUT oldest integer) LANGUAGE sql IMMUTABLE AS 'SELECT %d, %d'`, newest, oldest))
	},
	Run: func(t testing.TB, url string) {
		text, err := Schema(nil)
		if err == nil {
			_, err = connect(t, url).Exec(within(t), text)
		}
		if err != nil {
			t.Fatal(err)
		}
	},
	Is: func(t testing.TB, url string) int {
		return get[int](t, connect(t, url), `SELECT newest FROM @edition()`)
	},
	Join:  `SELECT @join('a', '\x01', 'nobody', '', 2147483647, 2147483647, 60000000, false, false, NULL)`,
	Renew: `SELECT @renewing('a', '\x01', 60000000, true)`,
	Leave: `SELECT @leaving('a', '\x01')`,
	Stranger: func(t testing.TB, url string) string {
		admin := connect(t, url)
		do(t, admin, `DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN END $$`)
		do(t, admin, `GRANT USAGE ON SCHEMA leasehold TO stranger`)
		do(t, admin, `GRANT ALL ON ALL TABLES IN SCHEMA leasehold TO stranger`)
		return strings.Replace(url, "postgres@", "stranger@", 1)
	},
	Command: "run the SQL of `leasehold schema postgres`",
}

func TestOlderFunctionsAreReplaced(t *testing.T) { rows.OlderFunctionsAreReplaced(t, editions) }
func TestNewerFunctionsServeOrAreRefused(t *testing.T) {
	rows.NewerFunctionsServeOrAreRefused(t, editions)
}
func TestTheSchemaMayBeRunAgain(t *testing.T) { rows.TheSchemaMayBeRunAgain(t, editions) }

// An upgrade that changes a table waits for a dump no longer than the calls of other clients,
// which wait behind it, can bear. It is done once the dump has ended.
func TestAnUpgradeGivesWayToADump(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"@names", "@claims"} {
		t.Run(table[1:], func(t *testing.T) {
			t.Parallel()
			upgradeBesideADump(t, table)
		})
	}
}

func upgradeBesideADump(t *testing.T, table string) {
	url := database(t)
	editions.First(t, url)
	admin := connect(t, url)
	dump, err := admin.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dump.Rollback(context.Background()) }()
	if _, err := dump.Exec(within(t), defaults.in(`SELECT FROM `+table)); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		e, err := Open(ctx, url)
		if err == nil {
			e.Close()
		}
		opened <- err
	}()
	until(t, "the upgrade does not ask for the table", func() bool {
		return get[int](t, admin, `SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '`+table+`'::regclass`) > 0
	})
	do(t, admin, editions.Join)
	if err := <-opened; err == nil || !strings.Contains(err.Error(), "still open") {
		t.Errorf("beside a dump: %v", err)
	}
	if err := dump.Rollback(within(t)); err != nil {
		t.Fatal(err)
	}
	open(t, url)
	if n := editions.Is(t, url); n != edition {
		t.Errorf("the edition is %d", n)
	}
	// What is new is as if it had been there from the start.
	const indexes = `SELECT string_agg(indexdef, E'\n' ORDER BY indexdef) FROM pg_indexes WHERE schemaname = 'leasehold'`
	fresh := database(t)
	open(t, fresh)
	if is, want := get[string](t, admin, indexes), get[string](t, connect(t, fresh), indexes); is != want {
		t.Errorf("the indexes are\n%s\nand of new tables\n%s", is, want)
	}
}

// The name of a schema is part of no format, where an upgrade changes a table either.
func TestASchemaThatReadsAsAFormatIsUpgraded(t *testing.T) {
	t.Parallel()
	url := database(t)
	admin, o := connect(t, url), Options{Schema: "100%I %s", Prefix: "%"}
	for _, sql := range []string{`CREATE SCHEMA "100%I %s"`, o.in(first)} {
		if _, err := admin.Exec(within(t), sql); err != nil {
			t.Fatal(err)
		}
	}
	e := open(t, url+"&schema=100%25I%20%25s&prefix=%25")
	if n := get[int](t, admin, o.in(`SELECT newest FROM @edition()`)); n != edition {
		t.Errorf("the edition is %d", n)
	}
	leave(t, e, join(t, e, exclusive("a")))
}

// An older program's SQL does not replace what is newer.
func TestNewerFunctionsAreNotReplacedByHand(t *testing.T) {
	t.Parallel()
	url := database(t)
	open(t, url)
	editions.Say(t, url, edition+1, edition)
	text, err := Schema(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect(t, url).Exec(within(t), text); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("they are: %v", err)
	}
	editions.Say(t, url, edition, edition)
	if n := editions.Is(t, url); n != edition {
		t.Errorf("the edition is %d", n)
	}
}
