// Package locks opens the engine of the examples: the one that LEASEHOLD_ENGINE
// names. If it reaches several machines, examples on all of them exclude each other.
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

// Open returns the client of one process of a fleet. If LEASEHOLD_ENGINE is
// empty, it uses the embedded engine in a directory inside fleet.Dir, so that
// an example leaves no files behind. ctx bounds the opening.
//
// Open refuses an engine that excludes within one process only: a fleet is
// several processes.
func Open(ctx context.Context) (*leasehold.Client, error) {
	eng, err := open(ctx)
	if err != nil {
		return nil, err
	}
	if eng.Guarantees().Scope == engine.ScopeProcess {
		return nil, errors.Join(errors.New("the engine of LEASEHOLD_ENGINE excludes within one process, and this is several processes: "+
			"leave the variable empty, or name a directory or a server"), eng.Close())
	}
	return leasehold.New(eng, &leasehold.Options{Label: fmt.Sprintf("process %d", fleet.Place())})
}

func open(ctx context.Context) (engine.Engine, error) {
	if url := os.Getenv("LEASEHOLD_ENGINE"); url != "" {
		return engines.Open(ctx, url)
	}
	return filelock.New(filepath.Join(fleet.Dir(), "locks"), nil)
}
