package certmagiclock_test

import (
	"context"
	"fmt"

	"github.com/caddyserver/certmagic"
	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/with/certmagiclock"
)

func Example() {
	ctx := context.Background()
	locks, err := leasehold.New(memlock.NewStore(nil).Engine(), nil)
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	storage, err := certmagiclock.New(&certmagic.FileStorage{Path: "certificates"}, locks, nil)
	if err != nil {
		panic(err)
	}
	// certmagic.Default.Storage = storage, or Config.Storage. Then CertMagic does this:
	fmt.Println(storage.Lock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.TryLock(ctx, "issue_cert_example.com"))
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output:
	// <nil>
	// false <nil>
	// <nil>
}
