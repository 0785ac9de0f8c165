package torture

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// A trial that goes on without its clients shows less and less, and says so. What a fault does
// is no reason, however long it lasts.
func TestAClientIsMissedThatDoesNotComeBack(t *testing.T) {
	cannot := errors.New("no engine")
	const fault = time.Hour
	between := func(faults int) func(w *witness, p *place) {
		return func(w *witness, p *place) {
			for range faults {
				time.Sleep(10 * time.Second)
				w.fill(p, false, cannot)
				w.stirs()
				time.Sleep(fault)
				w.calms()
			}
		}
	}
	for name, c := range map[string]struct {
		play   func(w *witness, p *place)
		long   time.Duration
		failed string
		note   string
	}{
		"it runs": {func(w *witness, p *place) {
			w.fill(p, true, nil)
			time.Sleep(time.Hour)
		}, 0, "", ""},
		"it comes back during a fault": {func(w *witness, p *place) {
			w.stirs()
			w.fill(p, false, cannot)
			time.Sleep(fault)
			w.fill(p, true, nil)
			w.calms()
			time.Sleep(time.Hour)
		}, 0, "", ""},
		"it is away for so long, and back": {func(w *witness, p *place) {
			time.Sleep(31 * time.Second)
			w.fill(p, false, cannot)
			w.fill(p, true, nil)
			time.Sleep(time.Hour)
			w.fill(p, false, nil)
			time.Sleep(29 * time.Second)
		}, 31 * time.Second, "", "a client was missing for 31s without a fault: no engine"},
		"it is away between faults": {between(6), time.Minute, "", "missing for 1m0s"},
		"for longer":                {between(7), 70 * time.Second, "a client was missing for 1m10s without a fault: no engine", "missing for 1m10s"},
		"it hangs": {func(w *witness, p *place) {
			time.Sleep(62 * time.Second)
		}, 62 * time.Second, "it did not open the engine", "it did not open the engine"},
		"a fault is never over": {func(w *witness, p *place) {
			w.stirs()
			w.stirs()
			w.calms()
			time.Sleep(time.Hour)
		}, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, _ := witnessOf(t)
				var failed error
				w.fail = func(err error) { failed = err }
				tr := &trial{witness: w, o: Options{TTL: time.Second}}
				c.play(w, w.place())
				if long, _ := w.missing(); long != c.long {
					t.Errorf("it is missing for %v, want %v", long, c.long)
				}
				tr.miss()
				if failed == nil != (c.failed == "") || failed != nil && !strings.Contains(failed.Error(), c.failed) {
					t.Errorf("the trial failed with %v, want %q", failed, c.failed)
				}
				tr.noteMissing()
				if notes := strings.Join(tr.notes, "\n"); notes == "" != (c.note == "") || !strings.Contains(notes, c.note) {
					t.Errorf("the notes are %q, want %q", notes, c.note)
				}
			})
		})
	}
}

func TestATrialEndsThatMissesAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w, _ := witnessOf(t)
		var failed error
		w.fail = func(err error) { failed = err; cancel() }
		w.place()
		(&trial{witness: w, o: Options{TTL: time.Second}}).watch(ctx, time.Now().Add(time.Hour))
		if failed == nil {
			t.Error("it goes on to its end")
		}
	})
}

// lame strikes and cannot put right what it did, or cannot strike.
type lame struct{ begins bool }

func (lame) Name() string { return "lame" }

func (l lame) Strike(_ context.Context, s *Strike) error {
	if l.begins {
		s.Begin("", "everything")
	}
	return errors.New("it is left in pieces")
}

// After a fault that nobody could put right, a client that is away is no wonder.
func TestAFaultThatIsNotPutRightGoesOn(t *testing.T) {
	for begins, want := range map[bool]int{true: 1, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := witnessOf(t)
			w.torment(t.Context(), []Nemesis{lame{begins}}, (&member{}).chance(0), time.Second, func(string) {})
			if w.stirred != want {
				t.Errorf("it begins: %v; %d faults are under way", begins, w.stirred)
			}
		})
	}
}

// A client is killed, and no other can open the engine.
func TestAClientThatCannotComeBackIsMissing(t *testing.T) {
	w, _ := witnessOf(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	number := int64(0)
	next := func() job {
		dir := t.TempDir()
		if number++; number > 1 {
			dir = filepath.Join(dir, "refused")
		}
		return job{
			Client: fmt.Sprintf("c%d", number), Number: number, URL: "dir://" + dir, TTL: time.Second, Names: []name{{Name: "n", Limit: engine.Max}},
		}
	}
	running, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- w.keep(ctx, next, func() { close(running) }, time.Minute) }()
	<-running
	for _, c := range w.running() {
		w.mu.Lock()
		c.ending = true
		w.mu.Unlock()
		c.process.Kill()
	}
	for ctx.Err() == nil {
		if _, why := w.missing(); strings.Contains(why.Error(), "the engine is not there") {
			cancel()
		}
		wait(ctx, again)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
