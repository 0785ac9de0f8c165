package pglock

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
	"leasehold/engine/line"
)

// TestFunctionsDoWhatPackageLineDoes runs random operations through the functions
// and through package line, and compares every reply, note, refusal and the line
// that is left. The functions read a clock that the test moves, and put their notes
// in a table, so that both sides are exact.
func TestFunctionsDoWhatPackageLineDoes(t *testing.T) {
	t.Parallel()
	url := database(t)
	e := open(t, url)
	pool := connect(t, url)
	do(t, pool, `CREATE TABLE test_clock AS SELECT 0::bigint AS t, false AS jumps`)
	do(t, pool, `CREATE TABLE test_notes (i serial, client text, note text)`)
	do(t, pool, `CREATE OR REPLACE FUNCTION @clock() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT t FROM public.test_clock); END'`)
	do(t, pool, `CREATE OR REPLACE FUNCTION @tell(client text, note text) RETURNS void LANGUAGE plpgsql AS
		'BEGIN INSERT INTO public.test_notes (client, note) VALUES (client, note); END'`)
	// A renewal that does not lock the name does not note the clock either, so a step
	// back is seen up to a second late: where the clock jumps, they lock.
	calm := strings.Replace(function(t, "calm"), "RETURN t <", "RETURN NOT (SELECT jumps FROM public.test_clock) AND t <", 1)
	do(t, pool, strings.Replace(calm, "CREATE", "CREATE OR REPLACE", 1))
	seeds := 24
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { compare(t, e, pool, uint64(seed)) })
	}
}

type modelTest struct {
	*testing.T
	pool *pgxpool.Pool
	rng  *rand.Rand
	now  time.Duration // since 1970
	log  []string
}

func (m *modelTest) fatalf(format string, args ...any) {
	m.Helper()
	m.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(m.log[max(0, len(m.log)-25):], "\n"))
}

func compare(t *testing.T, base *Engine, pool *pgxpool.Pool, seed uint64) {
	m := &modelTest{T: t, pool: pool, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Duration(time.Now().UnixMicro()) * time.Microsecond}
	forget(t, pool)
	engines := make([]*Engine, 3)
	for i := range engines {
		c := *base.client
		c.channel = fmt.Sprint("client", i)
		engines[i] = &Engine{client: &c, Engine: sqllock.New(&c, 0, base.Guarantees())}
	}
	const name = "a 'name' é"
	var l line.Line
	var ids []engine.ID
	anyID := func() engine.ID {
		if len(l.Places) > 0 && m.rng.IntN(2) == 0 {
			return l.Places[m.rng.IntN(len(l.Places))].ID
		}
		if len(ids) == 0 || m.rng.IntN(10) == 0 {
			return engine.NewID()
		}
		return ids[max(0, len(ids)-1-m.rng.IntN(8))]
	}
	ttls := []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, time.Minute, 3 * time.Hour}
	anyTTL := func() time.Duration { return ttls[m.rng.IntN(len(ttls))] }
	// Some seeds are about locks, some about semaphores, and some mix what must not
	// be mixed; some are about long lines of which few expire.
	kinds := [][2]int32{{engine.Max, engine.Max}, {1, engine.Max}, {1, 3}, {2, 3}, {3, 3}, {3, 5}, {5, 5}}
	steps := []time.Duration{time.Microsecond, 50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 40 * time.Minute}
	jumps := []time.Duration{-200 * time.Millisecond, -time.Hour, time.Hour}
	switch seed % 4 {
	case 0:
		kinds = kinds[:2]
	case 1:
		kinds = kinds[2:5]
	case 2:
		kinds, ttls, steps, jumps = kinds[:2], ttls[3:], steps[:3], jumps[:1]
	}
	if seed/4%2 == 1 {
		jumps = nil
	}
	do(t, pool, `UPDATE test_clock SET jumps = $1`, jumps != nil)
	for range 250 {
		if m.rng.IntN(3) == 0 {
			step := steps[m.rng.IntN(len(steps))]
			if m.rng.IntN(10) == 0 && jumps != nil {
				step = jumps[m.rng.IntN(len(jumps))] // clocks do that
			}
			m.now += step
			m.log = append(m.log, fmt.Sprint("clock ", step))
		}
		do(t, pool, `UPDATE test_clock SET t = $1`, m.now.Microseconds())
		do(t, pool, `TRUNCATE test_notes RESTART IDENTITY`)

		e := engines[m.rng.IntN(len(engines))]
		var got, want any
		var notes []line.Note
		switch op := m.rng.IntN(20); {
		case op < 8:
			kind := kinds[m.rng.IntN(len(kinds))]
			r := engine.Request{Name: name, ID: engine.NewID(), Units: kind[0], Limit: kind[1], WaitTTL: anyTTL(),
				NoWait: m.rng.IntN(4) == 0, Detached: m.rng.IntN(4) == 0}
			switch m.rng.IntN(8) {
			case 0:
				r.ID = anyID()
			case 1, 2:
				if r.Replaces = anyID(); r.NoWait || r.Replaces == r.ID {
					r.Replaces = engine.ID{}
				}
			}
			r.Owner = engine.Owner{Label: "owner of " + r.ID.Secret()}
			m.log = append(m.log, fmt.Sprintf("%s joins %x replacing %x %+v", e.client.channel, r.ID[:2], r.Replaces[:2], r))
			before := slices.Clone(l.Places)
			cw, nw, err := l.Join(m.now, uint64(m.now.Microseconds()), e.client.channel, r)
			cg, errg := e.Join(t.Context(), r)
			if err != nil {
				// The model says what both must: refused, and nothing changed.
				l.Places = before
				if errg == nil || !errors.Is(errg, engine.ErrRefused) || errg.Error() != err.Error() {
					m.fatalf("refusal: got %v, want %v", errg, err)
				}
				break
			}
			if errg != nil {
				m.fatalf("Join: %v", errg)
			}
			got, want, notes = cg, cw, nw
			ids = append(ids, r.ID)
		case op < 12:
			r := engine.Renewal{Name: name, ID: anyID(), Want: anyTTL()}
			m.log = append(m.log, fmt.Sprintf("%s renews %x for %v", e.client.channel, r.ID[:2], r.Want))
			want, notes = l.Renew(m.now, r)
			asked := append([]engine.Renewal{r}, more(m, engine.Renewal{Name: "nobody", Want: r.Want})...)
			cs, err := e.Renew(t.Context(), asked)
			cs = slices.DeleteFunc(cs, func(c engine.Claim) bool { return c.Name == "nobody" })
			if err != nil || len(cs) != 1 {
				m.fatalf("Renew: %v %v", cs, err)
			}
			got = cs[0]
		case op < 17:
			id := anyID()
			m.log = append(m.log, fmt.Sprintf("%s leaves %x", e.client.channel, id[:2]))
			want, notes = l.Leave(m.now, name, id)
			asked := append([]engine.Claim{{Name: name, ID: id}}, more(m, engine.Claim{Name: "nobody"})...)
			cs, err := e.Leave(t.Context(), asked)
			cs = slices.DeleteFunc(cs, func(c engine.Claim) bool { return c.Name == "nobody" })
			if err != nil || len(cs) != 1 {
				m.fatalf("Leave: %v %v", cs, err)
			}
			got = cs[0]
		case op < 18:
			m.log = append(m.log, fmt.Sprintf("%s departs", e.client.channel))
			mine := func(p line.Place) bool { return p.Client == e.client.channel && !p.Detached }
			if slices.ContainsFunc(l.Places, mine) { // the line of a client that is in none is not looked at
				notes = l.Depart(m.now, name, func(client string) bool { return client == e.client.channel })
			}
			for lines := int64(1); lines > 0; {
				var err error
				if lines, err = e.client.Depart(t.Context()); err != nil {
					m.fatalf("depart: %v", err)
				}
			}
		default:
			ticket, at := uint64(m.rng.IntN(100)), m.rng.IntN(2) == 0
			if len(l.Places) > 0 {
				ticket = l.Places[m.rng.IntN(len(l.Places))].Ticket
			}
			m.log = append(m.log, fmt.Sprintf("evicts %d, now: %v", ticket, at))
			nw, err := l.Evict(m.now, name, ticket, at)
			if errg := e.Evict(t.Context(), name, ticket, at); !errors.Is(errg, err) || (err == nil) != (errg == nil) {
				m.fatalf("Evict: got %v, want %v", errg, err)
			}
			notes = nw
		}
		if !reflect.DeepEqual(got, want) {
			m.fatalf("reply:\n got %+v\nwant %+v", got, want)
		}
		m.checkNotes(notes)
		m.checkLine(name, &l)
		view, err := e.Line(t.Context(), name)
		if err != nil {
			m.fatalf("Line: %v", err)
		}
		if want := l.View(m.now, name); !reflect.DeepEqual(view, want) {
			m.fatalf("view:\n got %+v\nwant %+v", view, want)
		}
	}
}

// more is, every other time, one that makes a call for several of a call for one.
func more[T any](m *modelTest, one T) []T {
	if m.rng.IntN(2) == 0 {
		return nil
	}
	return []T{one}
}

func (m *modelTest) checkNotes(want []line.Note) {
	m.Helper()
	rows, err := m.pool.Query(m.Context(), `SELECT client, note FROM test_notes ORDER BY i`)
	if err != nil {
		m.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (n line.Note, err error) {
		var text string
		if err := r.Scan(&n.Client, &text); err != nil {
			return n, err
		}
		n.Claim, err = parseNote(text)
		return n, err
	})
	if err != nil {
		m.fatalf("unreadable note: %v", err)
	}
	// Those that a step tells are told in any order.
	order := func(a, b line.Note) int {
		return cmp.Or(cmp.Compare(a.Claim.State, b.Claim.State), cmp.Compare(a.Claim.Ticket, b.Claim.Ticket))
	}
	slices.SortFunc(got, order)
	want = slices.SortedFunc(slices.Values(want), order)
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		m.fatalf("notes:\n got %+v\nwant %+v", got, want)
	}
}

// checkLine compares the rows, and the totals beside them.
func (m *modelTest) checkLine(name string, want *line.Line) {
	m.Helper()
	rows, err := m.pool.Query(m.Context(), defaults.in(`SELECT c.id, c.ticket, c.client, c.owner, c.deadline, c.asked, c.units, c.ticket <= n.upto, c.detached, c.evicted, c.told
		FROM @claims c JOIN @names n USING (name) WHERE c.name = $1 ORDER BY c.ticket`), []byte(name))
	if err != nil {
		m.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (p line.Place, err error) {
		var id, owner []byte
		var deadline, asked int64
		err = r.Scan(&id, &p.Ticket, &p.Client, &owner, &deadline, &asked, &p.Units, &p.Held, &p.Detached, &p.Evicted, &p.Told)
		copy(p.ID[:], id)
		p.Owner, p.Deadline, p.Asked = string(owner), sqllock.Micros(deadline), sqllock.Micros(asked)
		return p, err
	})
	if err != nil {
		m.Fatal(err)
	}
	// Whether a claim that waits, or is marked, was told means nothing.
	plain := func(ps []line.Place) (out []line.Place) {
		for _, p := range ps {
			if !p.Held || p.Evicted {
				p.Told = false
			}
			out = append(out, p)
		}
		return out
	}
	if g, w := plain(got), plain(want.Places); !reflect.DeepEqual(g, w) {
		m.fatalf("line:\n got %+v\nwant %+v", g, w)
	}
	if len(got) == 0 {
		return
	}
	var lim int32
	var size, used, soonest int64
	if err := m.pool.QueryRow(m.Context(), defaults.in(`SELECT lim, size, used, soonest FROM @names WHERE name = $1`), []byte(name)).Scan(&lim, &size, &used, &soonest); err != nil {
		m.Fatal(err)
	}
	units := int64(0)
	for _, p := range got {
		if p.Held {
			units += int64(p.Units)
		}
		if p.Deadline < sqllock.Micros(soonest) {
			m.fatalf("a deadline is %v before the soonest", sqllock.Micros(soonest)-p.Deadline)
		}
	}
	if lim != want.Limit || size != int64(len(got)) || used != units {
		m.fatalf("limit %d, %d claims, %d units held; want %d, %d, %d", lim, size, used, want.Limit, len(got), units)
	}
}
