package formats

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engines"
)

var update = flag.Bool("update", false, "write the records in testdata")

// item is a key, row or node of a store: its parts as they are kept, in the order in which the
// store was written.
type item []string

// store is what holds an engine's claims.
type store interface {
	dump(t *testing.T) []item
	wipe(t *testing.T)
	fill(t *testing.T, all []item)
}

// kind is one format.
type kind struct {
	name  string
	start func(t *testing.T) (url string, s store)

	waits    bool           // the queue is in the store
	byID     bool           // any client of a program that knows a claim's ID may renew and leave it
	detached bool           // a detached claim is kept in another way
	client   *regexp.Regexp // how its clients are called
}

func kinds() []kind {
	hex := regexp.MustCompile(`\b[0-9a-f]{24}|[0-9a-f]{24}\b`)
	base32 := regexp.MustCompile(`\b[a-z2-7]{13}\b`)
	return []kind{
		{name: "queuelock", start: redis(""), waits: true, byID: true, detached: true, client: hex},
		{name: "plainlock", start: redis("?layout=plain"), byID: true},
		{name: "redissonlock", start: redisson("readwrite")},
		{name: "redissonlock-lock", start: redisson("lock"), byID: true},
		{name: "redissonlock-fenced", start: redisson("fenced"), byID: true},
		{name: "redlock", start: redlock(""), byID: true},
		{name: "redlock-redisson", start: redlock("&layout=redisson"), byID: true},
		{name: "pglock", start: postgres, waits: true, byID: true, detached: true, client: hex},
		{name: "mysqllock", start: mysql, waits: true, byID: true, detached: true, client: hex},
		{name: "etcdlock", start: etcd, waits: true, detached: true, client: base32},
		{name: "zklock", start: zookeeper(""), waits: true},
		{name: "zklock-readwrite", start: zookeeper("?layout=readwrite"), waits: true},
		{name: "zklock-nodes", start: zookeeper("?layout=nodes"), waits: true},
	}
}

// ttl is two minutes: a slow machine does not make it another number of minutes.
const ttl = 2 * time.Minute

// The claims that a record has. IDs are fixed, so that they are in it as they are kept.
func request(name string, n byte, permits, limit int32) engine.Request {
	r := engine.Request{Name: name, Permits: permits, Limit: limit, WaitTTL: ttl, TTL: ttl}
	for i := range r.ID {
		r.ID[i] = n<<4 | byte(i)
	}
	r.Owner = engine.Owner{Host: "host", PID: 7, Label: "nightly", Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	return r
}

var (
	holder  = request("jobs/backup", 1, engine.Max, engine.Max)
	waiter  = request("jobs/backup", 2, engine.Max, engine.Max)
	reader1 = request("catalogue", 3, 1, engine.Max)
	reader2 = request("catalogue", 4, 1, engine.Max)
	permit1 = request("mail", 5, 2, 3)
	permit2 = request("mail", 6, 1, 3)
	apart   = func() engine.Request {
		r := request("deploy", 7, engine.Max, engine.Max)
		r.Detached = true
		return r
	}()
)

func open(t *testing.T, url string) engine.Engine {
	t.Helper()
	e, err := engines.Open(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func join(t *testing.T, e engine.Engine, r engine.Request, want engine.State) {
	t.Helper()
	c, err := e.Join(within(t), r)
	if err != nil || c.State != want {
		t.Fatalf("Join of %q is %v, %v: want %v", r.Name, c.State, err, want)
	}
}

// write makes the claims of a record, by two clients.
func write(t *testing.T, k kind, url string) {
	t.Helper()
	a, b := open(t, url), open(t, url)
	join(t, a, holder, engine.Held)
	if k.waits {
		join(t, b, waiter, engine.Waiting)
	}
	modes := a.Guarantees().Modes
	if modes&engine.Shared != 0 {
		join(t, a, reader1, engine.Held)
		join(t, b, reader2, engine.Held)
	}
	if modes&engine.Permits != 0 {
		join(t, a, permit1, engine.Held)
		join(t, b, permit2, engine.Held)
	}
	if k.detached {
		join(t, a, apart, engine.Held)
	}
}

// record is the text of a store.
func record(k kind, base time.Time, all []item) string {
	m := &masks{base: base, client: k.client}
	for _, one := range all {
		for _, part := range one {
			m.learn(part)
		}
	}
	var b strings.Builder
	for _, one := range all {
		for i, part := range one {
			if i > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(m.mask(part))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func file(k kind) string { return filepath.Join("testdata", k.name+".txt") }

func TestAnEngineWritesWhatIsRecorded(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			url, s := k.start(t)
			base := time.Now()
			write(t, k, url)
			got := record(k, base, s.dump(t))
			if *update {
				if err := os.WriteFile(file(k), []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file(k))
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the store has\n%s\nand %s has\n%s", got, file(k), want)
			}
		})
	}
}

// An older program has left these claims, and is gone or does not answer. Its names are not
// free, its queue is seen, and what it gives back goes to who waits.
func TestWhatIsRecordedIsUnderstood(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			url, s := k.start(t)
			e := open(t, url) // it makes tables and roots
			fillFrom(t, k, s)

			q, err := e.Queue(within(t), holder.Name)
			if err != nil {
				t.Fatal(err)
			}
			want := 1
			if k.waits {
				want = 2
			}
			if len(q.Claims) != want || q.Claims[0].State != engine.Held || k.waits && q.Claims[1].State != engine.Waiting {
				t.Fatalf("the queue is %+v, want %d claims", q, want)
			}
			for _, c := range q.Claims {
				if k.waits && (c.Owner.Label != "nightly" || c.Owner.PID != 7) {
					t.Errorf("the owner is %+v", c.Owner)
				}
				if c.TTL > 2*ttl || c.TTL <= 0 {
					t.Errorf("its time is %v", c.TTL)
				}
			}
			another := func(r engine.Request, n byte, permits int32) engine.Request {
				r = request(r.Name, n, permits, r.Limit)
				r.NoWait = true
				return r
			}
			join(t, e, another(holder, 9, engine.Max), engine.Gone)
			modes := e.Guarantees().Modes
			if modes&engine.Shared != 0 {
				join(t, e, another(reader1, 10, 1), engine.Held)
			}
			if modes&engine.Permits != 0 {
				join(t, e, another(permit1, 11, 1), engine.Gone)
			}
			released(t, k, e, q)
			if k.detached {
				leftByID(t, e, apart)
			}
		})
	}
}

// released gives the holder's claim back and sees the waiter hold.
func released(t *testing.T, k kind, e engine.Engine, q engine.Queue) {
	t.Helper()
	if k.byID {
		leftByID(t, e, holder)
	} else if err := e.Revoke(within(t), holder.Name, q.Claims[0].Ticket, true); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	} else if err != nil {
		return
	}
	after, err := e.Queue(within(t), holder.Name)
	if err != nil {
		t.Fatal(err)
	}
	if k.waits {
		if len(after.Claims) != 1 || after.Claims[0].State != engine.Held || after.Claims[0].Ticket != q.Claims[1].Ticket {
			t.Errorf("the queue is then %+v", after)
		}
	} else {
		join(t, e, func() engine.Request {
			r := request(holder.Name, 12, engine.Max, engine.Max)
			r.NoWait = true
			return r
		}(), engine.Held)
	}
}

// leftByID renews and leaves a claim as another program does that has its ID.
func leftByID(t *testing.T, e engine.Engine, r engine.Request) {
	t.Helper()
	if cs, err := e.Renew(within(t), []engine.Renewal{{Name: r.Name, ID: r.ID, Want: ttl}}); err != nil || len(cs) != 1 || cs[0].State != engine.Held {
		t.Errorf("the renewal of %q is %+v, %v", r.Name, cs, err)
	}
	if cs, err := e.Leave(within(t), []engine.Claim{{Name: r.Name, ID: r.ID}}); err != nil || len(cs) != 1 || cs[0].State != engine.Held {
		t.Errorf("Leave of %q found %+v, %v", r.Name, cs, err)
	}
}

func fillFrom(t *testing.T, k kind, s store) {
	t.Helper()
	text, err := os.ReadFile(file(k))
	if err != nil {
		t.Fatal(err)
	}
	base := time.Now()
	var all []item
	for line := range strings.Lines(string(text)) {
		var one item
		for part := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), "\t") {
			v, err := unmask(part, base)
			if err != nil {
				t.Fatal(err)
			}
			one = append(one, v)
		}
		all = append(all, one)
	}
	s.wipe(t)
	s.fill(t, all)
}
