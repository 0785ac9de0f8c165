package migratelock_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/stub"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/with/migratelock"
)

func Example() {
	if err := migrateShop(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: version 1
}

func migrateShop(ctx context.Context) error {
	locks, err := leasehold.New(memlock.NewStore(nil).Engine(), nil)
	if err != nil {
		return err
	}
	defer locks.Close()
	driver, err := stub.WithInstance(nil, &stub.Config{}) // or that of postgres, pgx, mysql
	if err != nil {
		return err
	}
	d, err := migratelock.New(driver, locks, "migrate:shop", nil)
	if err != nil {
		return err
	}
	source, err := iofs.New(fstest.MapFS{"1_stock.up.sql": {Data: []byte("CREATE TABLE stock (n INT)")}}, ".")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", source, "stub", d)
	if err != nil {
		return err
	}
	if err := d.Do(ctx, m.Up); err != nil {
		return err
	}
	version, _, err := m.Version()
	fmt.Println("version", version)
	return err
}
