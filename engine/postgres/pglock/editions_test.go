package pglock

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

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
