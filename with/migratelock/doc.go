// Package migratelock locks the migrations of golang-migrate
// (github.com/golang-migrate/migrate/v4) with leasehold. A [Driver] wraps any database.Driver:
//
//	d, err := migratelock.New(driver, locks, "migrate:shop", nil)
//	m, err := migrate.NewWithInstance("iofs", source, "postgres", d)
//	err = d.Do(ctx, m.Up)
//
// # What it promises
//
//   - No migration begins after the lease was lost, with [Driver.Do] and with m.Up alone: the
//     driver refuses to mark it as begun, and m.Up returns leasehold.ErrLost.
//   - Do gives m.Up what it lacks, a context: it bounds the waiting, and no migration begins
//     after it has ended. None begins after Do has returned either.
//   - A process that was killed delays the others by the TTL at most. A
//     stale lock does not block anybody. The mark of a version that it had begun (dirty) stays, as migrate wants it.
//   - The lock needs no session of the database, so it holds through PgBouncer in transaction
//     mode.
//
// # What migrate cannot know
//
// The interface of drivers has no context. So the migration that runs when the lease is lost
// goes on to its end, and no other one begins. Its mark keeps other processes away meanwhile:
// they fail with migrate.ErrDirty, or wait for its end. SetVersion then takes the mark away only
// if nobody has changed it.
//
// A process may be stopped after it looked at its lease, and before it writes the mark. When it
// goes on later, nothing keeps it from that migration: no lock can (package leasehold).
//
// GracefulStop of migrate.Migrate is not used. After it m.Up returns nil although migrations are
// missing, this Migrate never migrates again, and a value that came too late stops the next run.
//
// # The lock of the wrapped driver
//
// It is not taken, unless Options.OwnLock asks for it. pg_advisory_lock belongs to a session.
// In transaction mode PgBouncer gives it back on another one, and it stays taken for as long as
// PgBouncer keeps the session: the next process waits without an end.
//
// The drivers for PostgreSQL take it once by themselves, in WithInstance and Open, to make their
// table. Its number comes from Config.DatabaseName, which is used for nothing else. So through
// PgBouncer give them a name of their own, and call WithInstance under a lease:
//
//	driver, err := pgx.WithInstance(db, &pgx.Config{DatabaseName: rand.Text()}) // crypto/rand
//
// The driver for MySQL has NoLock (x-no-lock=true in the URL) for that.
package migratelock
