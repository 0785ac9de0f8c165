//go:build linux || darwin || freebsd

package filelock

import (
	"errors"
	"fmt"
	"os"

	"leasehold/engine/filelock/internal/liveness"
)

// LifeFile is one more descriptor of the file whose kernel lock is this
// client's life. The lock belongs to the open file, not to this process: as
// long as any process has a descriptor of it (inherited, or sent over a Unix
// socket), this client's claims are not free before their TTL, even if this
// process is killed. A supervisor that has to end what a dead holder started
// holds one, so that the name is free when that is done and not before.
//
// It prolongs nothing else: claims still end by Leave, Close, Revoke and TTL,
// whoever has the descriptor. Only having it open counts; writing to the file,
// or flock with LOCK_UN on any of its descriptors, ends the client for
// everybody. (If somebody removes it, the client makes a new one: a descriptor
// of the old one is then worth nothing.) The caller closes it; Close of the engine does not.
//
// Errors: os.ErrClosed after Close; a full disk, on which this client has no file yet.
func (e *Engine) LifeFile() (*os.File, error) {
	f, err := e.store.lives.LifeFile()
	if errors.Is(err, liveness.ErrUnborn) {
		err, _ = noRoom(e.store.root, e.store.path, "one more client", err)
		err = fmt.Errorf("filelock: %w", err)
	}
	return f, err
}
