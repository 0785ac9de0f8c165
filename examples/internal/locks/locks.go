// Package locks opens what the examples lock with: the engine of
// LEASEHOLD_ENGINE. With one that reaches several machines, examples that run
// on all of them exclude each other.
package locks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/filelock"
	"leasehold/engines"
	"leasehold/lab/servers/fleet"
)

// Open makes the client of one process of a fleet. Where LEASEHOLD_ENGINE is
// empty it is on the embedded engine, in a directory inside fleet.Dir, so that
// an example leaves nothing behind. ctx bounds the opening.
//
// An engine that excludes within one process only is refused: a fleet is
// several.
func Open(ctx context.Context) (*leasehold.Client, error) {
	eng, err := open(ctx)
	if err != nil {
		return nil, err
	}
	if eng.Guarantees().Scope == engine.ScopeProcess {
		return nil, errors.Join(errors.New("LEASEHOLD_ENGINE excludes within one process and this is several: "+
			"leave it empty, or name a directory or a server"), eng.Close())
	}
	return leasehold.New(eng, &leasehold.Options{Label: fmt.Sprintf("process %d", fleet.Place())})
}

func open(ctx context.Context) (engine.Engine, error) {
	if url := os.Getenv("LEASEHOLD_ENGINE"); url != "" {
		return engines.Open(ctx, url)
	}
	return filelock.New(filepath.Join(fleet.Dir(), "locks"), nil)
}
