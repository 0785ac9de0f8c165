package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/records"
)

// brief is the patience of these tests, others how long a call of others may
// take while somebody is stopped in the middle of one: brief twice, since a
// replacer may be stopped as well, and room for a busy machine.
const (
	brief  = 200 * time.Millisecond
	others = 2*brief + 10*time.Second
)

// A victim is another process that stops or kills itself at one step of a call.
// Whatever the step, others go on, nothing that counted is lost, and when the
// victim continues its answer is true.
func TestStoppedAnywhere(t *testing.T) {
	write := "locked loaded applied half-written stored checked unlocked sending"
	for _, c := range []struct{ do, steps string }{
		{"join a new name", "made filled founded opened " + write},
		{"join", write},
		{"join with a long owner", "grown " + write},
		{"join behind a holder", write},
		{"renew", write},
		{"leave", write},
	} {
		for step := range strings.FieldsSeq(c.steps) {
			for _, kill := range []bool{false, true} {
				what := "stopped"
				if kill {
					what = "killed"
				}
				t.Run(fmt.Sprintf("%s/%s/%s", c.do, step, what), func(t *testing.T) {
					t.Parallel()
					victimTest(t, c.do, strings.ReplaceAll(step, "-", " "), kill)
				})
			}
		}
	}
}

func victimTest(t *testing.T, do, step string, kill bool) {
	s := newScene(t, nil)
	verb, arg, _ := strings.Cut(do, " ")
	mine := engine.NewID() // the victim's claim
	o := order{Do: verb, Name: s.name, ID: mine.Secret(), At: step, Kill: kill}
	switch arg {
	case "a new name":
	case "with a long owner":
		o.Label = strings.Repeat("x", 900)
		fallthrough
	default:
		s.leave(s.b, s.held(s.b, s.join(s.b)))
	}
	var first, second engine.Claim // who is in the queue before
	if arg == "behind a holder" {
		first = s.held(s.b, s.join(s.b))
	}
	if verb == "renew" || verb == "leave" {
		if c := s.victim.do("join", s.name, mine); c.State != engine.Held {
			t.Fatalf("the first join is %v", c.State)
		}
		second = s.join(s.b)
	}

	s.victim.order(o)
	s.out(kill)
	begin := time.Now()
	third := s.join(s.c) // of somebody who knows nothing
	if took := time.Since(begin); took > others {
		t.Errorf("Join took %v while another process was %s", took, step)
	}
	if _, notified := s.notified.Load(second.ID); notified && s.state(s.b, second) != engine.Held {
		t.Error("a claim that waits was told that it holds")
	}
	if !kill {
		s.victim.signal(unix.SIGCONT)
		a := s.victim.answer()
		if a.Err != "" {
			t.Fatalf("the victim continued, and its call failed: %s", a.Err)
		}
		switch c := s.again(a.Claim, mine, verb); {
		case verb == "leave" && a.Claim.State != engine.Held:
			t.Errorf("Leave says %v of a claim that was held", a.Claim.State)
		case verb == "leave" && c.State != engine.Gone:
			t.Errorf("after Leave the claim is %v", c.State)
		case verb != "leave" && c.State == engine.Gone:
			t.Errorf("the victim was told %v; then the claim is gone", a.Claim.State)
		case verb == "renew" && c.State != engine.Held:
			t.Errorf("the claim that was held is %v", c.State)
		}
		// Whoever of the victim and the third came first must leave first.
		if verb == "join" {
			v := s.again(a.Claim, mine, "renew")
			if third.State = s.state(s.c, third); v.State == engine.Held && third.State == engine.Held {
				t.Fatal("the victim and somebody else both hold")
			}
		}
	}
	if first.State == engine.Held {
		s.leave(s.b, first)
	}
	if second.State != engine.Unknown {
		if verb == "renew" && !kill {
			s.victim.do("leave", s.name, mine)
		}
		s.leave(s.b, s.held(s.b, second))
	}
	if verb == "join" && !kill {
		s.victim.do("leave", s.name, mine) // ahead of the third or behind: it goes either way
	}
	s.leave(s.c, s.held(s.c, third))
	s.nobody()
}

// scene is one name, a victim, and two clients that nothing happens to.
type scene struct {
	t        *testing.T
	dir      string
	name     string
	victim   *remote
	b, c     *Engine
	options  *Options
	last     uint64   // the highest ticket that held
	notified sync.Map // IDs that b was told hold
}

func newScene(t *testing.T, o *Options) *scene {
	s := &scene{t: t, dir: filepath.Join(t.TempDir(), "state"), name: "the name"}
	s.victim = newRemote(t, s.dir)
	if s.options = o; o == nil {
		s.options = &Options{patience: brief}
	}
	s.b, s.c = s.engine(), s.engine()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.b.Watch(t.Context(), func(c engine.Claim) {
			if c.State == engine.Held {
				s.notified.Store(c.ID, true)
			}
		})
	}()
	t.Cleanup(func() { <-ended })
	return s
}

func (s *scene) engine() *Engine { return openEngine(s.t, s.dir, s.options) }

// out waits until the victim is stopped or dead.
func (s *scene) out(kill bool) {
	s.t.Helper()
	if !kill {
		s.victim.stopped()
		return
	}
	for range s.victim.reply {
		s.t.Fatal("the victim answered and never came to that step")
	}
}

// join takes the next place, and checks that tickets rise.
func (s *scene) join(e *Engine) engine.Claim {
	s.t.Helper()
	c, err := e.Join(context.Background(), engine.Request{
		Name: s.name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Minute,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *scene) state(e *Engine, c engine.Claim) engine.State {
	s.t.Helper()
	cs, err := e.Renew(context.Background(), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: time.Minute}})
	if err != nil {
		s.t.Fatal(err)
	}
	return cs[0].State
}

// held waits, as the core does, until a claim holds, and checks that its
// ticket is above all that held before.
func (s *scene) held(e *Engine, c engine.Claim) engine.Claim {
	s.t.Helper()
	for begin := time.Now(); c.State == engine.Waiting; c.State = s.state(e, c) {
		if time.Since(begin) > others {
			l, _ := e.Queue(context.Background(), s.name)
			s.t.Fatalf("a claim that nobody is ahead of waits: %+v", l)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if c.State != engine.Held || c.Ticket <= s.last {
		s.t.Fatalf("the claim is %v with ticket %d; %d held before", c.State, c.Ticket, s.last)
	}
	s.last = c.Ticket
	return c
}

func (s *scene) leave(e *Engine, c engine.Claim) {
	s.t.Helper()
	cs, err := e.Leave(context.Background(), []engine.Claim{c})
	if err != nil || cs[0].State != engine.Held {
		s.t.Fatalf("Leave of a held claim: %v %v", cs, err)
	}
}

// again asks the victim what has become of its claim.
func (s *scene) again(c engine.Claim, id engine.ID, verb string) engine.Claim {
	s.t.Helper()
	if verb == "join" && c.ID != id {
		s.t.Fatal("the answer is of another claim")
	}
	return s.victim.do("renew", s.name, id)
}

// nobody checks that the queue is empty and that nothing was left on the way.
func (s *scene) nobody() {
	s.t.Helper()
	l, err := s.b.Queue(context.Background(), s.name)
	if err != nil || len(l.Claims) > 0 {
		s.t.Errorf("in the end the queue has %+v, %v", l.Claims, err)
	}
	s.victim.signal(unix.SIGKILL)
	_, _ = s.victim.cmd.Process.Wait()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) { // they sweep by themselves as well, and one keeps the other out
		_, err = s.b.store.records.Sweep(context.Background(), "~") // after all records: only what was not founded
		if err := errors.Join(err, s.b.store.lives.Sweep(context.Background())); err != nil {
			s.t.Error(err)
		}
		left, _ := os.ReadDir(filepath.Join(s.dir, "new"))
		left = slices.DeleteFunc(left, func(d os.DirEntry) bool {
			client, _, _ := strings.Cut(d.Name(), ".")
			return client == s.b.store.client || client == s.c.store.client
		})
		files, _ := os.ReadDir(filepath.Join(s.dir, "clients"))
		if len(left) == 0 && len(files) == 2*3 {
			return
		}
		if time.Since(begin) > patient {
			s.t.Fatalf("left of the dead client: unfinished records %v, files %v", left, files)
		}
	}
}

// Two stop: one in the lock, one while it replaces the record.
func TestStoppedReplacer(t *testing.T) {
	for _, step := range []string{"replacing", "replaced"} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/kill %v", step, kill), func(t *testing.T) {
				t.Parallel()
				s := newScene(t, nil)
				first := s.held(s.b, s.join(s.b))
				stuck := newRemote(t, s.dir)
				id, id2 := engine.NewID(), engine.NewID()
				stuck.order(order{Do: "join", Name: s.name, ID: id.Secret(), At: "applied"})
				stuck.stopped()
				s.victim.order(order{Do: "join", Name: s.name, ID: id2.Secret(), At: step, Kill: kill})
				s.out(kill)

				begin := time.Now()
				third := s.join(s.c)
				if took := time.Since(begin); took > others {
					t.Errorf("Join took %v", took)
				}
				s.leave(s.b, first)
				s.leave(s.c, s.held(s.c, third))
				if !kill {
					s.victim.signal(unix.SIGCONT)
					if a := s.victim.answer(); a.Err != "" || a.Claim.State != engine.Held || a.Claim.Ticket <= s.last {
						t.Errorf("the replacer continued: %+v", a)
					}
				}
				stuck.signal(unix.SIGCONT)
				a := stuck.answer()
				want := engine.Held
				if !kill {
					want = engine.Waiting
				}
				if a.Err != "" || a.Claim.State != want || a.Claim.Ticket <= third.Ticket {
					t.Errorf("the stopped one continued: %+v", a)
				}
				if !kill {
					s.victim.do("leave", s.name, id2)
				}
				if c := stuck.do("renew", s.name, id); c.State != engine.Held {
					t.Errorf("the last in the queue is %v", c.State)
				}
				stuck.do("leave", s.name, id)
				stuck.signal(unix.SIGKILL)
				_, _ = stuck.cmd.Process.Wait()
				s.nobody()
				s.sweptClean()
			})
		}
	}
}

// sweptClean checks that in the end no record is left, replaced ones included,
// and that tickets rise all the same.
func (s *scene) sweptClean() {
	s.t.Helper()
	e, err := New(s.dir, &Options{patience: brief, idle: time.Nanosecond})
	if err != nil {
		s.t.Fatal(err)
	}
	defer e.Close()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) { // it sweeps by itself as well, and one keeps the other out
		if _, err := e.store.records.Sweep(context.Background(), ""); err != nil {
			s.t.Error(err)
		}
		left, _ := os.ReadDir(filepath.Join(s.dir, "lines"))
		if len(left) == 0 {
			break
		}
		if time.Since(begin) > patient {
			s.t.Fatalf("records are left: %v", left)
		}
	}
	s.leave(s.b, s.held(s.b, s.join(s.b)))
}

// addNumber replaces the record of a name, as somebody does who finds its lock
// held by one that is stopped.
func addNumber(t *testing.T, dir, name string) {
	t.Helper()
	numbers, err := filepath.Glob(filepath.Join(dir, records.Path(name), "*"))
	if err != nil || len(numbers) == 0 {
		t.Fatal(numbers, err)
	}
	next := filepath.Join(dir, records.Path(name), fmt.Sprint(len(numbers)+1)) // none was removed
	f, err := os.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// A sweeper stopped or killed at any step loses nobody's claim.
func TestStoppedSweeper(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		calm := &Options{patience: brief, hook: func(string) {}}
		steps := "floor-raised marked removed"
		if replaced {
			steps += " low-marked"
		}
		for step := range strings.FieldsSeq(steps) {
			for _, kill := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/replaced %v/kill %v", step, replaced, kill), func(t *testing.T) {
					t.Parallel()
					s := newScene(t, calm) // others must not sweep what the victim is to sweep
					s.leave(s.b, s.held(s.b, s.join(s.b)))
					if replaced {
						addNumber(t, s.dir, s.name)
						s.leave(s.b, s.held(s.b, s.join(s.b)))
					}
					s.victim.order(order{Do: "sweep", At: strings.ReplaceAll(step, "-", " "), Kill: kill})
					s.out(kill)

					begin := time.Now()
					first := s.held(s.c, s.join(s.c))
					second := s.join(s.b) // with the record still open
					if took := time.Since(begin); took > others {
						t.Errorf("Join took %v", took)
					}
					if second.State != engine.Waiting {
						t.Fatalf("two hold: one is in a record that was removed")
					}
					if !kill {
						s.victim.signal(unix.SIGCONT)
						if a := s.victim.answer(); a.Err != "" {
							t.Errorf("the sweeper continued: %s", a.Err)
						}
					}
					if got := s.state(s.c, first); got != engine.Held {
						t.Errorf("the holder is %v after the sweeper continued", got)
					}
					if got := s.join(s.engine()); got.State != engine.Waiting {
						t.Errorf("a newcomer is %v", got.State)
					}
					s.leave(s.c, first)
					s.leave(s.b, s.held(s.b, second))
				})
			}
		}
	}
}

// Somebody is stopped inside the lock; the record is replaced, used, and idle.
// The sweeper must leave the stopped one something to notice it by.
func TestSweepSparesTheStopped(t *testing.T) {
	for step := range strings.FieldsSeq("locked applied stored") {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil)
			s.leave(s.b, s.held(s.b, s.join(s.b)))
			id := engine.NewID()
			s.victim.order(order{Do: "join", Name: s.name, ID: id.Secret(), At: step})
			s.victim.stopped()
			first := s.join(s.b) // in a new number
			if first.State == engine.Waiting {
				s.victim.signal(unix.SIGCONT) // its claim counted: nothing is idle
				s.victim.answer()
				return
			}
			s.leave(s.b, first)
			e := openEngine(t, s.dir, &Options{patience: brief, idle: 1, hook: func(string) {}})
			if _, err := e.store.records.Sweep(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			s.victim.signal(unix.SIGCONT)
			if a := s.victim.answer(); a.Err != "" || a.Claim.State != engine.Held {
				t.Fatalf("the victim continued: %+v", a)
			}
			if c := s.join(s.c); c.State != engine.Waiting {
				t.Errorf("the victim holds, and so does somebody else: the claim is %v", c.State)
			}
		})
	}
}

// A name that is never idle does not keep what was replaced.
func TestReplacedNumbersGo(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, quiet()), openEngine(t, dir, quiet())
	c := mustJoin(t, a, exclusive("x"), engine.Held)
	for range 3 {
		addNumber(t, dir, "x")
	}
	mustJoin(t, b, exclusive("x"), engine.Waiting)
	if _, err := b.store.records.Sweep(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if path := recordFile(t, dir, "x"); filepath.Base(path) != "4" {
		t.Errorf("the record is %s", path)
	}
	mustLeave(t, a, c, engine.Held)
	mustJoin(t, openEngine(t, dir, nil), exclusive("x"), engine.Waiting)
}

// With the engine as users have it: about a second, and not for ever.
func TestPatience(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	e, err := New(s.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s.victim.order(order{Do: "join", Name: s.name, ID: engine.NewID().Secret(), At: "loaded"})
	s.victim.stopped()
	begin := time.Now()
	if c := s.join(e); c.State != engine.Held {
		t.Errorf("the claim is %v", c.State)
	}
	if took := time.Since(begin); took < records.Patience || took > records.Patience+others {
		t.Errorf("a stopped process was waited for for %v", took)
	}
}
