// Package bboltlock is an engine in a bbolt file, and an example of how to make an engine
// of any store with transactions: see package queuestore.
//
// It is for a program that keeps its state in such a file anyway. The library lets one
// process at a time open a file, so exclusion is among the clients of one
// process. Because of the file tokens rise and detached claims stay over
// crash and restart. Every call is a transaction, written through to the disk.
//
// The clock of deadlines runs only while the file is open. So a detached claim never
// ends early. It may stay longer by the time during which the file was closed.
package bboltlock

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"leasehold/engine"
	"leasehold/engine/queuestore"
)

var (
	lines = []byte("lines") // bucket: name to queue
	meta  = []byte("meta")  // bucket: the keys below
	floor = []byte("floor") // no ticket of a removed queue is above it
	clock = []byte("clock") // the time, as of the last change
)

// DB is an open file. Close its engines before it.
type DB struct {
	file   *bbolt.DB
	opened time.Time
	base   time.Duration // the clock when it was opened

	mu      sync.Mutex
	clients map[string]*queuestore.Engine
	swept   []byte // the last name the sweep read
}

// Open opens the file, and creates it if it is not there. It fails if another
// process still has it open after a second.
func Open(path string) (*DB, error) {
	file, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return nil, fmt.Errorf("bboltlock: %s did not open: %w; end the process that has it open, if there is one", path, err)
	}
	d := &DB{file: file, opened: time.Now(), clients: map[string]*queuestore.Engine{}}
	err = file.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(lines)
		if err == nil {
			_, err = tx.CreateBucketIfNotExists(meta)
		}
		d.base = time.Duration(number(tx, clock))
		return err
	})
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("bboltlock: making the buckets of %s failed: %w", path, err)
	}
	return d, nil
}

// Close closes the file.
func (d *DB) Close() error { return d.file.Close() }

// Engine returns the engine of one more client.
func (d *DB) Engine() *queuestore.Engine {
	name := queuestore.NewClient()
	e := queuestore.New(name, client{d, name}, nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clients[name] = e
	return e
}

func (d *DB) engineOf(client string) *queuestore.Engine {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients[client]
}

// client is the file as one client sees it.
type client struct {
	*DB
	name string
}

var _ queuestore.Liveness = client{}

func (c client) Guarantees() engine.Guarantees {
	return engine.Guarantees{
		Fencing:      engine.FencingAlways,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeProcess,
		CrashRelease: engine.CrashAtOnce,
		Detach:       true,
	}
}

// Change is one transaction. bbolt runs one at a time, and writes it to the disk
// before it returns.
func (c client) Change(ctx context.Context, name string, change func(*queuestore.Record) error) error {
	return c.file.Update(func(tx *bbolt.Tx) error {
		if err := ctx.Err(); err != nil {
			return err // it may have waited for others
		}
		record, err := c.load(tx, []byte(name))
		if err != nil {
			return err
		}
		if err := change(&record); err != nil {
			return err
		}
		if err := put(tx, clock, uint64(record.Now)); err != nil {
			return err
		}
		if err := save(tx, &record); err != nil {
			return err
		}
		return c.sweep(tx)
	})
}

func (d *DB) load(tx *bbolt.Tx, name []byte) (queuestore.Record, error) {
	record := queuestore.Record{Name: string(name), Now: d.base + time.Since(d.opened), Micros: uint64(time.Now().UnixMicro())}
	stored := tx.Bucket(lines).Get(name)
	if stored == nil {
		record.Queue.Last = number(tx, floor)
		return record, nil
	}
	return record, record.Queue.UnmarshalBinary(stored)
}

func save(tx *bbolt.Tx, record *queuestore.Record) error {
	name := []byte(record.Name)
	if !record.Queue.Empty(record.Now) {
		b, err := record.Queue.AppendBinary(nil)
		if err != nil {
			return err
		}
		return tx.Bucket(lines).Put(name, b)
	}
	if err := put(tx, floor, max(number(tx, floor), record.Queue.Last)); err != nil {
		return err
	}
	return tx.Bucket(lines).Delete(name)
}

// sweep removes the next two queues if all their claims have expired. So such
// queues do not pile up: a change adds one at most.
func (d *DB) sweep(tx *bbolt.Tx) error {
	for range 2 {
		at := tx.Bucket(lines).Cursor()
		name, _ := at.Seek(d.swept)
		if bytes.Equal(name, d.swept) && name != nil {
			name, _ = at.Next()
		}
		d.swept = bytes.Clone(name) // nil at the end: it then begins again
		if name == nil {
			return nil
		}
		record, err := d.load(tx, d.swept)
		if err != nil {
			return err
		}
		if record.Queue.Empty(record.Now) {
			if err := save(tx, &record); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c client) Read(_ context.Context, name string) (record queuestore.Record, err error) {
	err = c.file.View(func(tx *bbolt.Tx) error {
		record, err = c.load(tx, []byte(name))
		return err
	})
	return record, err
}

func (c client) Records(_ context.Context, prefix, after string) (records []queuestore.Record, next string, err error) {
	const page = 1000
	err = c.file.View(func(tx *bbolt.Tx) error {
		at := tx.Bucket(lines).Cursor()
		for name, _ := at.Seek([]byte(max(prefix, after))); bytes.HasPrefix(name, []byte(prefix)) && name != nil; name, _ = at.Next() {
			if string(name) == after {
				continue
			}
			record, err := c.load(tx, name)
			if err != nil {
				return err
			}
			if records = append(records, record); len(records) == page {
				next = record.Name
				return nil
			}
		}
		return nil
	})
	return records, next, err
}

func (c client) Notify(client string, notification engine.Claim) {
	if e := c.engineOf(client); e != nil {
		e.Post(notification)
	}
}

// Dead reports true for every client of another process: no other process can have
// the file open, so that one has ended.
func (c client) Dead(client string) bool { return c.engineOf(client) == nil }

// Await does nothing: a client of this process ends by Close, which makes all others
// read their queues again.
func (c client) Await(string, string, time.Duration) {}

// Close ends the client. Its claims are then those of a dead client, and the waiters
// find that when they read their queues again.
func (c client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clients, c.name)
	for _, e := range c.clients {
		e.PostAll()
	}
	return nil
}

func number(tx *bbolt.Tx, key []byte) uint64 {
	if b := tx.Bucket(meta).Get(key); len(b) == 8 {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func put(tx *bbolt.Tx, key []byte, n uint64) error {
	return tx.Bucket(meta).Put(key, binary.BigEndian.AppendUint64(nil, n))
}
