//go:build linux || darwin || freebsd

package filelock

import (
	"errors"
	"fmt"
	"os"

	"leasehold/engine/filelock/internal/liveness"
)

// LifeFile returns one more descriptor of the file whose kernel lock is this client's
// life. The lock belongs to the open file, not to this process. As long as any process has
// a descriptor of it (inherited, or sent over a Unix socket), this client's claims are not
// free before their TTL, even if this process is killed. A supervisor that has to end the
// processes of a dead holder keeps a descriptor, so that the name is free when they have
// ended and not before.
//
// The descriptor prolongs nothing else: claims still end by Leave, Close, Revoke and TTL.
// Only having it open counts. A write to the file, or flock with LOCK_UN on any of its
// descriptors, ends the client for everybody. (If somebody removes the file, the client
// makes a new one, and a descriptor of the old one is worth nothing.) The caller closes
// the descriptor; Close of the engine does not.
//
// LifeFile returns os.ErrClosed after Close, and an error on a full disk, on which this
// client has no file yet.
func (e *Engine) LifeFile() (*os.File, error) {
	f, err := e.store.lives.LifeFile()
	if errors.Is(err, liveness.ErrUnborn) {
		err, _ = noRoom(e.store.root, e.store.path, "one more client", err)
		err = fmt.Errorf("filelock: %w", err)
	}
	return f, err
}
