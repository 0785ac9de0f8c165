package mysqllock

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
	"leasehold/engine/line"
)

// setClock has the procedures read a clock that the test moves.
func setClock(t testing.TB, db *sql.DB) {
	t.Helper()
	do(t, db, `CREATE TABLE test_clock (t BIGINT)`)
	do(t, db, `INSERT INTO test_clock VALUES (0)`)
	do(t, db, `DROP PROCEDURE @clock`)
	do(t, db, `CREATE PROCEDURE @clock(OUT now BIGINT) SQL SECURITY INVOKER BEGIN SET now = (SELECT t FROM test_clock); END`)
}

// TestProceduresDoWhatPackageLineDoes runs random operations through the procedures
// and through package line, and compares every reply, refusal and the line that is
// left. The procedures read a clock that the test moves, so that both sides are exact.
func TestProceduresDoWhatPackageLineDoes(t *testing.T) {
	t.Parallel()
	url := database(t)
	e := open(t, url)
	e.client.calls.line = strings.Replace(e.client.calls.line, clock, "(SELECT t FROM test_clock)", 1)
	db := connect(t, url)
	setClock(t, db)
	seeds := 20
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { compare(t, e, db, uint64(seed)) })
	}
}

type modelTest struct {
	*testing.T
	db  *sql.DB
	rng *rand.Rand
	now time.Duration // since 1970
	log []string
}

func (m *modelTest) fatalf(format string, args ...any) {
	m.Helper()
	m.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(m.log[max(0, len(m.log)-25):], "\n"))
}

func compare(t *testing.T, base *Engine, db *sql.DB, seed uint64) {
	m := &modelTest{T: t, db: db, rng: rand.New(rand.NewPCG(seed, 1)), now: sqllock.Micros(time.Now().UnixMicro())}
	forget(t, db)
	engines := make([]*Engine, 3)
	for i := range engines {
		c := *base.client
		c.id = [12]byte{'c', byte('0' + i)}
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
	for range 250 {
		if m.rng.IntN(3) == 0 {
			step := steps[m.rng.IntN(len(steps))]
			if m.rng.IntN(10) == 0 {
				step = jumps[m.rng.IntN(len(jumps))] // clocks do that
			}
			m.now += step
			m.log = append(m.log, fmt.Sprint("clock ", step))
		}
		do(t, db, `UPDATE test_clock SET t = ?`, m.now.Microseconds())

		e := engines[m.rng.IntN(len(engines))]
		client := string(e.client.id[:])
		var got, want engine.Claim
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
			m.log = append(m.log, fmt.Sprintf("%s joins %x replacing %x %+v", e.client.id[:2], r.ID[:2], r.Replaces[:2], r))
			before := slices.Clone(l.Places)
			asked := r
			asked.WaitTTL = m.granted(&l, r.ID, r.WaitTTL)
			cw, _, err := l.Join(m.now, uint64(m.now.Microseconds()), client, asked)
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
			got, want = cg, cw
			ids = append(ids, r.ID)
		case op < 12:
			r := engine.Renewal{Name: name, ID: anyID(), Want: anyTTL()}
			m.log = append(m.log, fmt.Sprintf("%s renews %x for %v", e.client.id[:2], r.ID[:2], r.Want))
			asked := r
			if !m.enough(&l, r) {
				asked.Want = m.granted(&l, r.ID, r.Want)
			}
			want, _ = l.Renew(m.now, asked)
			cs, err := e.Renew(t.Context(), []engine.Renewal{r})
			if err != nil || len(cs) != 1 {
				m.fatalf("Renew: %v %v", cs, err)
			}
			got = cs[0]
		case op < 17:
			id := anyID()
			m.log = append(m.log, fmt.Sprintf("%s leaves %x", e.client.id[:2], id[:2]))
			want, _ = l.Leave(m.now, name, id)
			cs, err := e.Leave(t.Context(), []engine.Claim{{Name: name, ID: id}})
			if err != nil || len(cs) != 1 {
				m.fatalf("Leave: %v %v", cs, err)
			}
			got = cs[0]
		case op < 18:
			m.log = append(m.log, fmt.Sprintf("%s departs", e.client.id[:2]))
			mine := func(p line.Place) bool { return p.Client == client && !p.Detached }
			if slices.ContainsFunc(l.Places, mine) { // the line of a client that is in none is not looked at
				l.Depart(m.now, name, func(c string) bool { return c == client })
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
			_, err := l.Evict(m.now, name, ticket, at)
			if errg := e.Evict(t.Context(), name, ticket, at); !errors.Is(errg, err) || (err == nil) != (errg == nil) {
				m.fatalf("Evict: got %v, want %v", errg, err)
			}
		}
		if (got.Look > 0) != (got.State == engine.Waiting) || got.Look > lookSeldom {
			m.fatalf("Look of %+v", got)
		}
		got.Look, want.Look = 0, 0
		if !reflect.DeepEqual(got, want) {
			m.fatalf("reply:\n got %+v\nwant %+v", got, want)
		}
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

func (m *modelTest) find(l *line.Line, id engine.ID) *line.Place {
	if i := slices.IndexFunc(l.Places, func(p line.Place) bool { return p.ID == id && p.Deadline > m.now }); i >= 0 {
		return &l.Places[i]
	}
	return nil
}

// granted is what a claim is given that asks for so much: one that waits an eighth
// more.
func (m *modelTest) granted(l *line.Line, id engine.ID, want time.Duration) time.Duration {
	if p := m.find(l, id); p != nil && !p.Held {
		return want + want/8
	}
	return want
}

// enough: the claim has that much left, and waits, so a look at it writes nothing.
// The model's answer is then the same, except where it would grant less than that:
// when something has expired in the line, or the clock stepped back.
func (m *modelTest) enough(l *line.Line, r engine.Renewal) bool {
	p := m.find(l, r.ID)
	if p == nil || p.Held || p.Deadline < m.now+r.Want {
		return false
	}
	row := m.db.QueryRowContext(m.Context(), defaults.in(`SELECT soonest, seen FROM @names WHERE name = ?`), []byte(r.Name))
	var soonest, seen int64
	if err := row.Scan(&soonest, &seen); err != nil {
		m.Fatal(err)
	}
	return m.now.Microseconds() < soonest && m.now.Microseconds() >= seen
}

// checkLine compares the rows, and the totals beside them.
func (m *modelTest) checkLine(name string, want *line.Line) {
	m.Helper()
	rows, err := m.db.QueryContext(m.Context(), defaults.in(`SELECT c.id, c.ticket, c.client, c.owner, c.deadline, c.asked, c.units, c.ticket <= n.upto, c.detached, c.evicted
		FROM @claims c JOIN @names n USING (name) WHERE c.name = ? ORDER BY c.ticket`), []byte(name))
	if err != nil {
		m.Fatal(err)
	}
	defer rows.Close()
	var got []line.Place
	for rows.Next() {
		var p line.Place
		var id, owner []byte
		var deadline, asked int64
		if err := rows.Scan(&id, &p.Ticket, &p.Client, &owner, &deadline, &asked, &p.Units, &p.Held, &p.Detached, &p.Evicted); err != nil {
			m.Fatal(err)
		}
		copy(p.ID[:], id)
		p.Owner, p.Deadline, p.Asked = string(owner), sqllock.Micros(deadline), sqllock.Micros(asked)
		got = append(got, p)
	}
	if err := rows.Err(); err != nil {
		m.Fatal(err)
	}
	untold := slices.Clone(want.Places) // nobody is told anything here
	for i := range untold {
		untold[i].Told = false
	}
	if len(got)+len(untold) > 0 && !reflect.DeepEqual(got, untold) {
		m.fatalf("line:\n got %+v\nwant %+v", got, untold)
	}
	if len(got) == 0 {
		return
	}
	var lim int32
	var size, used, soonest int64
	if err := m.db.QueryRowContext(m.Context(), defaults.in(`SELECT lim, size, used, soonest FROM @names WHERE name = ?`), []byte(name)).Scan(&lim, &size, &used, &soonest); err != nil {
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
