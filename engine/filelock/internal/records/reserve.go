package records

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/disk"
)

// Records are never synced: after a power cut they may say anything older, or be
// gone, and the wall clock of a board without a battery begins in the past. So that
// tickets rise all the same, no ticket is granted above a number that is synced:
// the reserve, which is raised by an hour's tickets at a time. The tickets of a later
// boot begin above all that an earlier one had reserved.
//
//	reserve/<boot>.<number>        tickets up to it may be granted in that boot
//	reserve/<boot>.<number>.new    about to be; its author syncs it before it gets its name
//
// The name says all, so there is no content to tear and nothing to lock. Whoever
// reads a name without .new may rely on it without syncing: its author has synced
// the same number, with .new, which a later boot counts as well.
type reserve struct {
	dir  disk.Dir
	boot [16]byte
	base uint64 // reserved by earlier boots: tickets of this one begin above it

	most atomic.Uint64 // tickets up to it may be granted: it rises, under mu, once they are reserved
	mu   sync.Mutex    // one call of this client reserves
}

// reserveStep is how many tickets are reserved at once: those of an hour, since
// they go by microseconds. So a directory is synced once an hour.
const reserveStep = uint64(time.Hour / time.Microsecond)

const unsynced = ".new"

// mark is one name in the directory of the reserve.
type mark struct {
	file   string
	boot   [16]byte
	number uint64
	synced bool
}

func (m *mark) String() string {
	suffix := unsynced
	if m.synced {
		suffix = ""
	}
	return hex.EncodeToString(m.boot[:]) + "." + strconv.FormatUint(m.number, 10) + suffix
}

func parseMark(file string) (m mark, ok bool) {
	name, new := strings.CutSuffix(file, unsynced)
	boot, number, _ := strings.Cut(name, ".")
	b, err := hex.DecodeString(boot)
	if err != nil || len(b) != len(m.boot) {
		return m, false
	}
	n, err := strconv.ParseUint(number, 10, 64)
	return mark{file, [16]byte(b), n, !new}, err == nil && n <= engine.MaxTicket
}

// openReserve reads what earlier boots have reserved. Where this boot is not known
// it is taken for the newest there is: then tickets may fall after a power cut, and
// the engine does not promise more.
func openReserve(root disk.Dir, boot [16]byte) (r *reserve, err error) {
	r = &reserve{boot: boot}
	if !disk.Syncs {
		return r, nil
	}
	if r.dir, err = root.MakeSub("reserve"); err != nil {
		return r, err
	}
	marks, err := r.marks()
	if err != nil {
		r.dir.Close()
		return r, err
	}
	newest := uint64(0)
	for _, m := range marks {
		if boot == ([16]byte{}) && m.number >= newest {
			newest, r.boot = m.number, m.boot
		}
	}
	for _, m := range marks {
		if m.boot != r.boot {
			r.base = max(r.base, m.number)
		}
	}
	return r, nil
}

func (r *reserve) marks() (ms []mark, err error) {
	files, err := r.dir.List()
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if m, ok := parseMark(file); ok {
			ms = append(ms, m)
		}
	}
	return ms, nil
}

func (r *reserve) close() {
	if disk.Syncs {
		r.dir.Close()
	}
}

// reserveTicket makes sure that a ticket may be granted, in any boot to come. It
// comes before the ticket is stored.
//
// A sync may take seconds. Under Records.mu every call of this client would wait for
// it, no context would end that, and leases would end unrenewed. So reserve has a lock
// of its own, and only calls with a ticket above the old reserve wait for it.
//
// A call that reads most without the lock may see an old one. That is lower, so the call
// reads it again under the lock. Of several calls that find most too low, the first reserves for
// the others. Other processes may reserve at the same time, as the loop expects.
func (c *Records) reserveTicket(ticket uint64) error {
	if !disk.Syncs {
		return nil
	}
	r := c.reserve
	if ticket <= r.most.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ticket <= r.most.Load() {
		return nil
	}
	for range 1000 {
		marks, err := r.marks()
		if err != nil {
			return err
		}
		var last mark // the highest of this boot
		for _, m := range marks {
			if m.boot == r.boot && m.synced && m.number >= last.number {
				last = m
			}
		}
		if last.number >= ticket {
			r.most.Store(last.number)
			return nil
		}
		next := mark{boot: r.boot, number: min(ticket+reserveStep, engine.MaxTicket)}
		// Renamed, since a full disk has room for that. Whoever reads meanwhile
		// finds none of this boot, and reserves for itself.
		if last.file != "" {
			err = r.dir.Move(last.file, next.String())
		} else {
			err = r.dir.Touch(next.String())
		}
		if err == nil {
			c.step("reserving")
			err = r.sync(next)
		}
		switch {
		case err == nil:
			r.most.Store(next.number)
			r.tidy(marks)
			return nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist): // somebody else reserves
		default:
			return err
		}
	}
	return fmt.Errorf("tickets above %d cannot be reserved: others reserve faster", ticket)
}

// sync makes a reserved number last, and only then lets others rely on it.
func (r *reserve) sync(next mark) error {
	if err := r.dir.Sync(); err != nil {
		return fmt.Errorf("reserving tickets: %w", err)
	}
	file := next.String()
	next.synced = true
	return r.dir.Move(file, next.String())
}

// tidy removes what says less than what is reserved now, and of earlier boots all
// but the highest. What cannot be removed does no harm.
func (r *reserve) tidy(marks []mark) {
	most := r.most.Load()
	for _, m := range marks {
		if m.boot == r.boot && m.number < most || m.boot != r.boot && m.number < r.base {
			_ = r.dir.Remove(m.file)
		}
	}
}
