package sqltest

import (
	"context"
	"testing"
	"time"

	"leasehold/engine/internal/sqllock"
	"leasehold/engine/line"
)

// Stored is a line as its rows have it, and the totals beside them.
type Stored struct {
	line.Line
	size, used, soonest int64
}

// Add reads one row, which is a claim, of rows in the order of tickets: the claim's id,
// ticket, client, owner, deadline, what was asked for at most, units, whether it holds,
// is detached, was evicted and was told; and of its name the limit, how many are in
// line, how many units are held, and the soonest deadline.
func (s *Stored) Add(scan func(to ...any) error) error {
	var p line.Place
	var id, owner []byte
	var deadline, asked int64
	if err := scan(&id, &p.Ticket, &p.Client, &owner, &deadline, &asked, &p.Units, &p.Held, &p.Detached, &p.Evicted, &p.Told,
		&s.Limit, &s.size, &s.used, &s.soonest); err != nil {
		return err
	}
	copy(p.ID[:], id)
	p.Owner, p.Deadline, p.Asked = string(owner), sqllock.Micros(deadline), sqllock.Micros(asked)
	s.Places = append(s.Places, p)
	return nil
}

// Sound is the line, and fails the test if the totals do not fit the claims.
func (s *Stored) Sound(t testing.TB) line.Line {
	t.Helper()
	used := int64(0)
	for _, p := range s.Places {
		if p.Held {
			used += int64(p.Units)
		}
		if early := sqllock.Micros(s.soonest) - p.Deadline; early > 0 {
			t.Fatalf("a deadline is %v before the soonest", early)
		}
	}
	if s.size != int64(len(s.Places)) || s.used != used {
		t.Fatalf("%d claims, %d units held; want %d, %d", s.size, s.used, len(s.Places), used)
	}
	return s.Line
}

// Depart gives up all that a client has.
func Depart(ctx context.Context, db sqllock.Database) error {
	for {
		if lines, err := db.Depart(ctx); err != nil || lines == 0 {
			return err
		}
	}
}

// Now is the clock at which a comparison begins.
func Now() time.Duration { return sqllock.Micros(time.Now().UnixMicro()) }
