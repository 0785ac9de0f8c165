package redislock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/line"
	"leasehold/engine/redis/internal/wire"
)

// TestScriptsDoWhatPackageLineDoes runs random operations through the scripts
// and through package line and compares every reply, note, refusal and the line
// that is left. The scripts read a clock that the test moves, and leave their
// notes in a list, so that both sides are exact.
func TestScriptsDoWhatPackageLineDoes(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	c := connect(t, r.Addr)
	seeds := 50
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { compare(t, c, uint64(seed)) })
	}
}

var publish = regexp.MustCompile(`redis\.pcall\('PUBLISH', `)

// testScripts read the clock from a key and list what they would publish.
func testScripts() scripts {
	s := newScripts(false)
	for _, one := range []**wire.Script{&s.join, &s.leave, &s.renew, &s.evict, &s.read} {
		text := strings.ReplaceAll((*one).Text(), "redis.call('TIME')", "{redis.call('GET', 'sec'), redis.call('GET', 'usec')}")
		text = publish.ReplaceAllString(text, "redis.call('RPUSH', 'notes', ")
		*one = wire.NewScript(text)
	}
	return s
}

// bare is an engine that nobody asked whether its server will do.
func bare(client rueidis.Client, prefix, channel string) *Engine {
	e := &Engine{wire: wire.New(client), prefix: prefix, channel: channel, scripts: testScripts(), life: context.Background()}
	e.group = group{wire: e.wire, script: e.scripts.group, life: e.life, many: many}
	return e
}

type modelTest struct {
	*testing.T
	client rueidis.Client
	rng    *rand.Rand
	now    time.Duration // since 1970; a day ahead, so that no key expires
	log    []string
}

func (m *modelTest) fatalf(format string, args ...any) {
	m.Helper()
	m.Fatalf("%s\nafter:\n%s", fmt.Sprintf(format, args...), strings.Join(m.log[max(0, len(m.log)-25):], "\n"))
}

func (m *modelTest) do(args ...string) rueidis.RedisResult {
	r := m.client.Do(m.Context(), m.client.B().Arbitrary(args[0]).Args(args[1:]...).Build())
	if err := r.Error(); err != nil && !rueidis.IsRedisNil(err) {
		m.fatalf("%v: %v", args, err)
	}
	return r
}

func compare(t *testing.T, client rueidis.Client, seed uint64) {
	m := &modelTest{T: t, client: client, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Duration(time.Now().Add(24*time.Hour).UnixMicro()) * time.Microsecond}
	m.do("FLUSHALL")
	engines := make([]*Engine, 3)
	for i := range engines {
		engines[i] = bare(client, "leasehold:", fmt.Sprint("client", i))
	}
	const name = "a {name}"
	var l line.Line
	var ids []engine.ID
	most := 0 // in line before nobody else joins; 0: any number
	anyID := func() engine.ID {
		if most > 0 && len(l.Places) > 0 && m.rng.IntN(10) > 0 {
			return l.Places[m.rng.IntN(len(l.Places))].ID
		}
		if len(ids) == 0 || m.rng.IntN(10) == 0 {
			return engine.NewID()
		}
		return ids[max(0, len(ids)-1-m.rng.IntN(8))]
	}
	ttls := []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second, time.Minute, 3 * time.Hour}
	anyTTL := func() time.Duration { return ttls[m.rng.IntN(len(ttls))] }
	// Some seeds are about locks, some about semaphores, some mix what must not
	// be mixed, and some are about contended locks of which nobody expires, while
	// the clock trembles: there the scripts go their short ways. So they do where
	// few are in line and some expire: those ways begin and end at lines of two.
	kinds := [][2]int32{{engine.Max, engine.Max}, {1, engine.Max}, {1, 3}, {2, 3}, {3, 3}, {3, 5}, {5, 5}}
	steps := []time.Duration{time.Microsecond, 50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second, 40 * time.Minute}
	jumps, often := []time.Duration{-200 * time.Millisecond, -time.Hour, time.Hour}, 10 // one step in so many
	switch seed % 5 {
	case 0:
		kinds = kinds[:2]
	case 1:
		kinds = kinds[2:]
	case 2:
		kinds, ttls, steps = kinds[:1], []time.Duration{time.Hour, 3 * time.Hour}, steps[:4]
		jumps, often = jumps[:1], 3
	case 3:
		kinds, ttls, steps = kinds[:1], []time.Duration{3 * time.Second, time.Hour, 3 * time.Hour},
			[]time.Duration{time.Microsecond, 500 * time.Millisecond, 2 * time.Second, 40 * time.Minute}
		often, most = 50, 4
	}
	for range 300 {
		if m.rng.IntN(3) == 0 {
			step := steps[m.rng.IntN(len(steps))]
			if m.rng.IntN(often) == 0 {
				step = jumps[m.rng.IntN(len(jumps))] // clocks do that
			}
			m.now += step
			m.log = append(m.log, fmt.Sprint("clock ", step))
		}
		m.do("SET", "sec", strconv.FormatInt(int64(m.now/time.Second), 10))
		m.do("SET", "usec", strconv.FormatInt(int64(m.now%time.Second/time.Microsecond), 10))
		m.do("DEL", "notes")

		e := engines[m.rng.IntN(len(engines))]
		var got, want any
		var notes []line.Note
		op := m.rng.IntN(10)
		if most > 0 && op < 4 && len(l.Places) >= most {
			op = 6 // leaves
		}
		switch {
		case op < 4:
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
			m.log = append(m.log, fmt.Sprintf("%s joins %x replacing %x %+v", e.channel, r.ID[:2], r.Replaces[:2], r))
			before := slices.Clone(l.Places)
			cw, nw, err := l.Join(m.now, uint64(m.now.Microseconds()), e.channel, r)
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
		case op < 6:
			r := engine.Renewal{Name: name, ID: anyID(), Want: anyTTL()}
			m.log = append(m.log, fmt.Sprintf("%s renews %x for %v", e.channel, r.ID[:2], r.Want))
			want, notes = l.Renew(m.now, r)
			cs, err := e.Renew(t.Context(), []engine.Renewal{r})
			if err != nil || len(cs) != 1 {
				m.fatalf("Renew: %v %v", cs, err)
			}
			got = cs[0]
		case op < 9:
			id := anyID()
			m.log = append(m.log, fmt.Sprintf("%s leaves %x", e.channel, id[:2]))
			want, notes = l.Leave(m.now, name, id)
			cs, err := e.Leave(t.Context(), []engine.Claim{{Name: name, ID: id}})
			if err != nil || len(cs) != 1 {
				m.fatalf("Leave: %v %v", cs, err)
			}
			got = cs[0]
		default:
			ticket, at := uint64(m.rng.IntN(100)), m.rng.IntN(2) == 0
			if len(l.Places) > 0 {
				ticket = l.Places[m.rng.IntN(len(l.Places))].Ticket
			}
			m.log = append(m.log, fmt.Sprintf("%s evicts %d, at once: %v", e.channel, ticket, at))
			var err error
			notes, err = l.Evict(m.now, name, ticket, at)
			want, got = fmt.Sprint(err), fmt.Sprint(e.Evict(t.Context(), name, ticket, at))
		}
		if !reflect.DeepEqual(got, want) {
			m.fatalf("reply:\n got %+v\nwant %+v", got, want)
		}
		m.checkNotes(engines[0], notes)
		m.checkLine(engines[0], name, &l)
	}
}

func (m *modelTest) checkNotes(e *Engine, want []line.Note) {
	m.Helper()
	raw, err := m.do("LRANGE", "notes", "0", "-1").AsStrSlice()
	if err != nil {
		m.Fatal(err)
	}
	var got []line.Note
	for i := 0; i+1 < len(raw); i += 2 {
		c, ok := e.note(raw[i+1])
		if !ok {
			m.fatalf("unreadable note %q", raw[i+1])
		}
		got = append(got, line.Note{Client: raw[i], Claim: c})
	}
	if !reflect.DeepEqual(got, want) {
		m.fatalf("notes:\n got %+v\nwant %+v", got, want)
	}
}

func (m *modelTest) checkLine(e *Engine, name string, want *line.Line) {
	m.Helper()
	fields, err := m.do("HGETALL", e.key(name)).AsStrMap()
	if err != nil {
		m.Fatal(err)
	}
	got, err := parseLine(fields)
	if err != nil {
		m.fatalf("line: %v", err)
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
	if g, w := plain(got.Places), plain(want.Places); !reflect.DeepEqual(g, w) {
		m.fatalf("line:\n got %+v\nwant %+v", g, w)
	}
	if len(want.Places) > 0 && got.Limit != want.Limit {
		m.fatalf("limit: got %d, want %d", got.Limit, want.Limit)
	}
	// The key must outlive its last deadline by an hour, and not by a day.
	if fields["m"] != "" {
		expires, err := m.do("PEXPIRETIME", e.key(name)).AsInt64()
		if err != nil {
			m.Fatal(err)
		}
		at := time.Duration(expires) * time.Millisecond
		for _, p := range got.Places {
			if p.Deadline > m.now && at < p.Deadline+keep/2 {
				m.fatalf("the key goes %v after the deadline of a claim", at-p.Deadline)
			}
		}
		if at < 0 || at > m.now+24*time.Hour {
			m.fatalf("the key goes in %v", at-m.now)
		}
	}
	for id := range maps.Keys(fields) {
		if len(want.Places) < 2 && id != "m" && fields["m"][0] != 'Q' || len(want.Places) == 0 && id != "m" {
			m.fatalf("a field too many: %x", id)
		}
	}
	if mm := fields["m"]; mm != "" && (mm[0] == 'F' || mm[0] == 'Q') {
		untold := uint32(0)
		for _, p := range got.Places {
			if p.Held && !p.Told && !p.Evicted {
				untold++
			}
		}
		if u32(mm[49:]) != untold {
			m.fatalf("untold: %d, but counted %d", u32(mm[49:]), untold)
		}
	}
}
