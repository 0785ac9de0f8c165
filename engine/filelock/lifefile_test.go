//go:build linux || darwin || freebsd

package filelock

import (
	"errors"
	"os"
	"testing"

	"leasehold/engine"
)

// A client lives as long as any process has a descriptor of its life.
func TestLifeFileKeepsAClientAlive(t *testing.T) {
	dir := t.TempDir()
	holder, other := openEngine(t, dir, nil), openEngine(t, dir, nil)
	mustJoin(t, holder, exclusive("n"), engine.Held)
	life, err := holder.LifeFile()
	if err != nil {
		t.Fatal(err)
	}
	defer life.Close()
	dead := &client{Engine: holder}
	dead.die()
	try := exclusive("n")
	try.NoWait = true
	mustJoin(t, other, try, engine.Gone)
	if err := life.Close(); err != nil {
		t.Fatal(err)
	}
	mustJoin(t, other, exclusive("n"), engine.Held)
}

// But it keeps nothing that was given up.
func TestLifeFileDoesNotOutliveClose(t *testing.T) {
	dir := t.TempDir()
	holder, other := openEngine(t, dir, nil), openEngine(t, dir, nil)
	mustJoin(t, holder, exclusive("n"), engine.Held)
	life, err := holder.LifeFile()
	if err != nil {
		t.Fatal(err)
	}
	defer life.Close()
	if err := holder.Close(); err != nil {
		t.Fatal(err)
	}
	mustJoin(t, other, exclusive("n"), engine.Held)
	if _, err := holder.LifeFile(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}
