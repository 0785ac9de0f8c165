package mysqllock

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
		db := connect(t, url)
		for _, statement := range strings.Split(strings.TrimSuffix(first, end), end) {
			do(t, db, statement)
		}
	},
	Say: func(t testing.TB, url string, newest, oldest int) {
		db := connect(t, url)
		do(t, db, `DROP PROCEDURE @edition`)
		do(t, db, fmt.Sprintf(`CREATE PROCEDURE @edition() SELECT '%d %d' AS answer`, newest, oldest))
	},
	Run: func(t testing.TB, url string) {
		text, err := Schema(nil)
		if err != nil {
			t.Fatal(err)
		}
		query(t, "USE "+url[strings.LastIndex(url, "/")+1:]+";\n"+text)
	},
	Is: func(t testing.TB, url string) (newest int) {
		var oldest int
		if _, err := fmt.Sscan(get[string](t, connect(t, url), `CALL @edition()`), &newest, &oldest); err != nil {
			t.Fatal(err)
		}
		return newest
	},
	Join:  `CALL @join('a', x'01000000000000000000000000000000', x'010000000000000000000000', '', 2147483647, 2147483647, 60000000, 0, 0, NULL)`,
	Renew: `CALL @batch(x'0001610100000000000000000000000000000000000000003b9aca00')`,
	Leave: `CALL @batch(x'000161010000000000000000000000000000000000000000000000')`,
	Stranger: func(t testing.TB, url string) string {
		name := url[strings.LastIndex(url, "/")+1:]
		query(t, "CREATE USER IF NOT EXISTS stranger@localhost")
		query(t, "GRANT EXECUTE, SELECT, INSERT, UPDATE, DELETE ON "+name+".* TO stranger@localhost")
		return strings.Replace(url, "root@", "stranger@", 1)
	},
	Command: "run the SQL of `leasehold schema mysql`",
}

func TestOlderProceduresAreReplaced(t *testing.T) { rows.OlderFunctionsAreReplaced(t, editions) }
func TestNewerProceduresServeOrAreRefused(t *testing.T) {
	rows.NewerFunctionsServeOrAreRefused(t, editions)
}
func TestTheSchemaMayBeRunAgain(t *testing.T) { rows.TheSchemaMayBeRunAgain(t, editions) }
