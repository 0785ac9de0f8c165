package tuslock_test

import (
	"context"
	"fmt"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/with/tuslock"
)

func Example() {
	locks, err := leasehold.New(memlock.NewStore(nil).Engine(), nil)
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	locker, err := tuslock.New(locks, nil)
	if err != nil {
		panic(err)
	}
	composer := handler.NewStoreComposer()
	filestore.New("uploads").UseIn(composer)
	locker.UseIn(composer) // last; then handler.NewHandler(handler.Config{StoreComposer: composer})

	// What the handler does for two requests for one upload:
	first, _ := composer.Locker.NewLock("24e533e02ec3bc40c387f1a0e460e216")
	asked := make(chan struct{})
	fmt.Println(first.Lock(context.Background(), func() { close(asked) }))
	go func() {
		<-asked // the handler closes the body of the request
		fmt.Println("asked to stop")
		first.Unlock()
	}()
	second, _ := composer.Locker.NewLock("24e533e02ec3bc40c387f1a0e460e216")
	fmt.Println(second.Lock(context.Background(), nil))
	fmt.Println(second.Unlock())
	// Output:
	// <nil>
	// asked to stop
	// <nil>
	// <nil>
}
