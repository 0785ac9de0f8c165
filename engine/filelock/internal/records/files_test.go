package records

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

func TestDamagedFiles(t *testing.T) {
	for what, damage := range map[string]func(b []byte) []byte{
		"empty":           func([]byte) []byte { return nil },
		"one byte":        func([]byte) []byte { return []byte{0} },
		"all zero":        func(b []byte) []byte { return make([]byte, len(b)) },
		"cut in half":     func(b []byte) []byte { return b[:300] },
		"cut in the head": func(b []byte) []byte { return b[:7] },
		"garbage": func(b []byte) []byte {
			rand.Read(b)
			return b
		},
		"garbage behind the magic": func(b []byte) []byte {
			for off := 0; off+4 < len(b); off += slotSize {
				rand.Read(b[off:])
				copy(b[off:], slotMagic)
			}
			return b
		},
		"one bit":        func(b []byte) []byte { return flip(b, slotHead+40) },
		"sealed text":    func(b []byte) []byte { return sealed(b, []byte("this is not a queue")) },
		"sealed nothing": func(b []byte) []byte { return sealed(b, nil) },
		"very long":      func(b []byte) []byte { return append(b, make([]byte, 1<<20)...) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			a, b := openEngine(t, dir), openEngine(t, dir)
			last := mustJoin(t, a, exclusive("x"), engine.Held)
			mustLeave(t, a, last, engine.Held)
			path := recordFile(t, dir, "x")
			was, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(was), 0o600); err != nil {
				t.Fatal(err)
			}
			// One with the file open, one that opens it now, one that looks.
			if l, err := b.Queue(t.Context(), "x"); err != nil || len(l.Claims) > 0 {
				t.Fatalf("Queue: %+v %v", l, err)
			}
			first := mustJoin(t, a, exclusive("x"), engine.Held)
			if first.Ticket <= last.Ticket {
				t.Errorf("ticket %d follows %d", first.Ticket, last.Ticket)
			}
			second := mustJoin(t, b, exclusive("x"), engine.Waiting)
			mustLeave(t, a, first, engine.Held)
			mustLeave(t, b, second, engine.Held)
		})
	}
}

func flip(b []byte, at int) []byte {
	for ; at < len(b); at += slotSize {
		b[at] ^= 4
	}
	return b
}

func sealed(b, payload []byte) []byte {
	s := append(make([]byte, slotHead), payload...)
	seal(s, 1<<40)
	copy(b, s)
	return b
}

// More names than records are kept open, and a queue longer than any slot.
func TestManyNamesAndLongQueues(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir), openEngine(t, dir)
	many := 3 * a.records.most
	var cs []engine.Claim
	for i := range many {
		cs = append(cs, mustJoin(t, a, exclusive(fmt.Sprint("name ", i)), engine.Held))
	}
	if n := len(a.records.records); n > a.records.most {
		t.Errorf("%d records are open", n)
	}
	var rs []engine.Renewal
	for _, c := range cs {
		rs = append(rs, engine.Renewal{Name: c.Name, ID: c.ID, Want: time.Hour})
	}
	got, err := a.Renew(t.Context(), rs)
	if err != nil || len(got) != many {
		t.Fatalf("Renew of %d answers %d: %v", many, len(got), err)
	}
	for _, c := range got {
		if c.State != engine.Held || c.TTL != time.Hour {
			t.Fatalf("renewed is %+v", c)
		}
	}

	var in []engine.Claim
	for i := range 300 {
		r := exclusive("long")
		r.Owner = engine.Owner{Host: "host", Label: strings.Repeat("l", 500), PID: i, Since: time.Now()}
		want := engine.Waiting
		if i == 0 {
			want = engine.Held
		}
		in = append(in, mustJoin(t, []*client{a, b}[i%2], r, want))
	}
	l, err := b.Queue(t.Context(), "long")
	if err != nil || len(l.Claims) != len(in) {
		t.Fatalf("a queue of %d is shown as one of %d: %v", len(in), len(l.Claims), err)
	}
	for i, c := range l.Claims {
		if c.Ticket != in[i].Ticket || c.Owner.PID != i || len(c.Owner.Label) != 500 {
			t.Fatalf("place %d is %+v", i, c)
		}
	}
	for i, c := range in {
		mustLeave(t, []*client{a, b}[i%2], c, engine.Held)
	}
	st, err := os.Stat(recordFile(t, dir, "long"))
	if err != nil || st.Size() > classEnd(2) {
		t.Errorf("an empty queue that was long once takes %d bytes: %v", st.Size(), err)
	}
}
