package filelock

import (
	"leasehold/engine/filelock/internal/disk"
	"leasehold/engine/filelock/internal/liveness"
)

// share is how much an engine keeps open at most: together a quarter of the descriptors
// that the process may have, so that the program, and another engine or two, have the
// rest. Beyond its share the engine goes on, and opens files more often.
type share struct {
	records int // idle ones, and as many in use at a time, and one that is renewed; two descriptors each
	lives   liveness.Most
}

// shareOf divides the limit of the process.
func shareOf(limit uint64) share {
	const least, most = 4, 256 // descriptors of one kind
	n := max(least, int(min(limit/16, most)))
	return share{records: n / 4, lives: liveness.Most{Peers: n / 2, Monitors: n, Listeners: n}}
}

// spare is how many descriptors a call needs beyond those: a record and the high-water
// mark, or a record that is being founded, and a client whose life is checked; and what a
// sweep needs beside it.
const spare = 6 + sweeps

// sweeps is how many a sweep has open: a record, the list of its numbers, and one of them.
const sweeps = 4

// reserve checks that the process can open so many, before anything relies on it.
func reserve(root disk.Dir) error {
	opened := make([]disk.Dir, 0, spare)
	defer func() {
		for _, d := range opened {
			d.Close()
		}
	}()
	for range spare {
		d, err := root.Sub(".")
		if err != nil {
			return err
		}
		opened = append(opened, d)
	}
	return nil
}
