package service

import (
	"testing"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/memlock"
)

// The conformance suite over TLS, on a store in memory.
func TestConformance(t *testing.T) {
	t.Parallel()
	store := memlock.NewStore(nil)
	_, url := serve(t, store.Engine(), nil)
	enginetest.Run(t, enginetest.Harness{
		Name: "httplock-mem",
		New:  func(t testing.TB) engine.Engine { return client(t, url) },
	})
}
