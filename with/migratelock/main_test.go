package migratelock

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// migrate reads migrations ahead, and leaves the reader of one that was refused.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang-migrate/migrate/v4.(*Migration).Buffer"))
}
