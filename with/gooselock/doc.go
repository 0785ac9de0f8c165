// Package gooselock locks the migrations of goose (github.com/pressly/goose/v3) with leasehold:
// of all processes that migrate one database when they start, one at a time does.
//
//	locker, err := gooselock.New(locks, "migrate:shop", gooselock.Options{})
//	provider, err := goose.NewProvider(goose.DialectMySQL, db, migrations)
//	results, err := locker.Up(ctx, provider)
//
// # What it promises
//
//   - [Locker.Up] and [Locker.Run] take the lease, and give the provider a context that ends
//     with it. When the lease is lost, goose begins no further statement, and a migration in a
//     transaction is rolled back. The error is leasehold.ErrLost.
//   - A process that was killed delays the others by the TTL at most. A stale
//     row does not block anybody.
//   - A Locker works with every database of goose, since the lock is leasehold's. The engine can
//     be the database that is migrated, or any other.
//
// A Locker is what goose asks for: a lock.Locker (goose.WithLocker) and a
// lock.SessionLocker (goose.WithSessionLocker). The provider then locks in each of its own
// calls. A provider with the Locker can be given to Up too: its calls share the lease of Up.
//
// # A provider's calls beside Run
//
// A provider keeps its mutex while it waits for its locker, and the function of Run needs that
// mutex. So a call of the provider with another context than Run's does not wait for Run. It fails
// with leasehold.ErrHeld when Run has the lease. Call it again later. For a readiness check ask
// Provider.HasPending, which does not lock.
//
// A Locker knows only of its own Runs: give a provider to no other Locker than that which it has.
//
// # What goose cannot know
//
// goose cannot learn from a locker that the lock was lost: Lock returns nil, and the migration
// goes on. Only Unlock tells, when the migration has ended. So prefer Up and Run to goose's own
// calls with WithLocker.
//
// # The first start on MySQL and MariaDB
//
// goose's own calls look for its table of versions, and make it, before they lock (v3.29). MySQL
// and MariaDB commit the table before its first row. A process that calls Provider.Up at that
// moment fails with "missing zero version migration", and succeeds when it calls again. A
// Locker's Up and Run hold the lease already, so they cannot.
//
// # What a cancelled migration leaves behind
//
// A context ends what this process does. PostgreSQL rolls back the transaction of a migration,
// its DDL too. MySQL and MariaDB commit each DDL statement at once, and they may finish the
// statement that runs when its connection is closed. There, and with "-- +goose NO TRANSACTION",
// keep to one DDL statement per migration, written so that it can run again (IF NOT EXISTS).
//
// A process that was stopped, and goes on after its lease was lost, may send one more statement
// before it sees the end of its context. No lock can prevent that (package leasehold). In a
// migration of its own, a transaction can refuse it: package fence. It cannot refuse DDL on MySQL
// and MariaDB, nor what follows it: DDL first commits the transaction, and so ends the check.
package gooselock
