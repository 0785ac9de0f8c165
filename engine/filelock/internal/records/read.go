package records

import (
	"context"
	"errors"
	"slices"
	"strings"

	"leasehold/engine/filelock/internal/disk"
	"leasehold/engine/queuestore"
)

// Read is [queuestore.Store].Read. It reads without the lock: what it shows was
// true a moment ago.
func (c *Records) Read(name string) (queuestore.Record, error) {
	record := c.record(name)
	r := newRecord(c.lines, name, fileName(name))
	ok, err := c.peek(r)
	if err != nil {
		return record, c.explain(name, err, false)
	}
	if ok && r.state.name == name {
		record.Queue = r.state.queue
	}
	return record, nil
}

// page is as many records as Records reads at a time.
const page = 1000

// List is [queuestore.Store].Records. Names are found by reading every record: they
// are hashed on disk.
func (c *Records) List(ctx context.Context, prefix, after string) (found []queuestore.Record, next string, err error) {
	files, next, err := c.part(after, page)
	if err != nil {
		return nil, "", c.explain("", err, false)
	}
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return found, "", err
		}
		r := newRecord(c.lines, "", file)
		ok, err := c.peek(r)
		if err != nil {
			return found, "", c.explain(file, err, false)
		}
		if ok && strings.HasPrefix(r.state.name, prefix) && fileName(r.state.name) == file {
			record := c.record(r.state.name)
			record.Queue = r.state.queue
			found = append(found, record)
		}
	}
	return found, next, nil
}

// part is at most so many of the records whose files come after one, in order,
// and where to go on: nowhere if that is all.
func (c *Records) part(after string, most int) (files []string, next string, err error) {
	if files, err = c.lines.List(); err != nil {
		return nil, "", err
	}
	slices.Sort(files)
	i, _ := slices.BinarySearch(files, after+"\x00")
	if files = files[i:]; len(files) > most {
		files = files[:most]
		next = files[most-1]
	}
	return files, next, nil
}

// peek reads the state of a record as it stands, whatever its name. It says no
// if there is none, or something else in its place, or if it is of another
// boot.
func (c *Records) peek(r *record) (bool, error) {
	err := r.find()
	if err == nil {
		defer r.shut()
		var payload []byte
		var known bool
		if payload, _, known, err = r.load(false); err == nil {
			if !known || parseState(payload, &r.state) != nil {
				return false, nil
			}
			return c.isCurrent(&r.state)
		}
	}
	if errors.Is(err, errNoRecord) || disk.IsStranger(err) {
		err = nil
	}
	return false, err
}
