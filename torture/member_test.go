package torture

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/torture/history"
)

// untilClosed drops what is written after its end. The goroutine that says that a lease is lost
// may come so late, and a member whose witness is gone ends its process, here that of the tests.
type untilClosed struct{ *io.PipeWriter }

func (w untilClosed) Write(p []byte) (int, error) {
	n, err := w.PipeWriter.Write(p)
	if errors.Is(err, io.ErrClosedPipe) {
		return len(p), nil
	}
	return n, err
}

// memberOf is a client without a process, on an engine, and what it says. Each question is
// answered when answer returns.
func memberOf(t *testing.T, eng engine.Engine, answer func(said)) (m *member, heard func() []said) {
	t.Helper()
	locks, err := leasehold.New(eng, nil)
	if err != nil {
		t.Fatal(err)
	}
	in, out := io.Pipe()
	m = &member{locks: locks, out: json.NewEncoder(untilClosed{out}), awaiting: map[int64]chan told{}, job: job{TTL: time.Second}}
	var all []said
	done := make(chan struct{})
	go func() {
		defer close(done)
		for lines := json.NewDecoder(in); ; {
			var s said
			if err := lines.Decode(&s); err != nil {
				return
			}
			all = append(all, s)
			if s.Ask != 0 {
				answer(s)
				m.answer(told{Answer: s.Ask})
			}
		}
	}()
	return m, func() []said {
		if err := locks.Close(); err != nil {
			t.Error(err)
		}
		out.Close()
		<-done
		return all
	}
}

func lockOf(t *testing.T, m *member) *held {
	t.Helper()
	l, err := m.locks.Lock(t.Context(), "n")
	if err != nil {
		t.Fatal(err)
	}
	return m.began(l, 1)
}

// What the client saw before the witness had stamped the mark proves nothing.
func TestAMarkIsConfirmedByALookAfterTheAnswer(t *testing.T) {
	for _, lost := range []bool{false, true} {
		var h *held
		m, heard := memberOf(t, memlock.New(), func(s said) {
			if s.Event.Kind == history.Mark && lost {
				_ = h.Unlock()
			}
		})
		h = lockOf(t, m)
		if valid := m.mark(h); valid == lost {
			t.Errorf("the lease is lost: %v; the client says valid: %v", lost, valid)
		}
		_ = h.Unlock()
		all := heard()
		i := slices.IndexFunc(all, func(s said) bool { return s.Mark != 0 })
		if i < 0 || all[i].Valid == lost || all[i].Mark != all[0].Ask {
			t.Errorf("the lease is lost: %v; the client said %+v", lost, all)
		}
	}
}

// A call that began before the witness had stamped it would seem to come too late.
func TestACallBeginsAfterItsStamp(t *testing.T) {
	stamped := false
	m, heard := memberOf(t, memlock.New(), func(said) {
		time.Sleep(10 * time.Millisecond)
		stamped = true
	})
	if m.begin(history.Event{What: history.Lock}); !stamped {
		t.Error("the call begins, and the witness has not answered")
	}
	heard()
}

// An Unlock says OK only of a lease that was valid to its end.
func TestWhatAnUnlockSays(t *testing.T) {
	for _, lost := range []bool{false, true} {
		store := memlock.NewStore(nil)
		m, heard := memberOf(t, store.Engine(), func(said) {})
		h := lockOf(t, m)
		if lost {
			other := store.Engine()
			q, err := other.Queue(t.Context(), "n")
			if err := errors.Join(err, other.Revoke(t.Context(), "n", q.Claims[0].Ticket, true), other.Close()); err != nil {
				t.Fatal(err)
			}
			<-h.Context().Done()
		}
		m.unlock(h)
		want := history.OK
		if lost {
			want = history.Gone
		}
		all := heard()
		results := slices.DeleteFunc(all, func(s said) bool { return s.Event == nil || s.Event.Kind != history.Answer })
		if len(results) != 1 || results[0].Event.Result != want {
			t.Errorf("the lease is lost: %v; the client said %+v", lost, results)
		}
	}
}

// A stop of a holder that goes on without a look at its lease is what fencing is for: it reads
// before, and writes after.
func TestAHolderReadsAndWritesWithoutALookBetween(t *testing.T) {
	var h *held
	m, heard := memberOf(t, memlock.New(), func(s said) {
		if s.Event.Kind == history.Read && s.Event.Resource == history.Fenced {
			_ = h.Unlock()
		}
	})
	m.job.Fencing = true
	h = lockOf(t, m)
	m.increment(t.Context(), h, m.chance(0))
	var did []string
	for _, s := range heard() {
		if s.Event != nil && (s.Event.Kind == history.Read || s.Event.Kind == history.Write) {
			did = append(did, string(s.Event.Kind)+" "+s.Event.Resource)
		}
	}
	if want := []string{"read unfenced", "read fenced", "write unfenced", "write fenced"}; !slices.Equal(did, want) {
		t.Errorf("%q, want %q", did, want)
	}
}

// What is left when all clients have ended is told and ended, and what ends by itself is not
// left.
func TestWhatIsLeftIsToldAndEnded(t *testing.T) {
	t.Parallel()
	store := memlock.NewStore(nil)
	left := store.Engine()
	for name, ttl := range map[string]time.Duration{"p-forgotten": time.Hour, "p-soon": time.Second, "another": time.Hour} {
		if _, err := left.Join(t.Context(), engine.Request{Name: name, ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: ttl, Detached: true}); err != nil {
			t.Fatal(err)
		}
	}
	w, written := witnessOf(t)
	tr := &trial{prefix: "p-", witness: w, o: Options{TTL: 100 * time.Millisecond, Open: func(context.Context, string) (engine.Engine, error) { return store.Engine(), nil }}}
	if rest := tr.clean(t.Context()); len(rest) > 0 {
		t.Errorf("it could not end %q", rest)
	}
	if got := written(); !contains(got, `"kind":"left"`, `"value":1`, "p-forgotten") {
		t.Errorf("the history has %s", got)
	}
	for name, want := range map[string]int{"p-forgotten": 0, "p-soon": 0, "another": 1} {
		if q, err := left.Queue(t.Context(), name); err != nil || len(q.Claims) != want {
			t.Errorf("%s: %+v, %v", name, q, err)
		}
	}
	if err := left.Close(); err != nil {
		t.Error(err)
	}
}

// A claim that is made anew has another place, and a Join that is repeated has not.
func TestAClaimThatIsMadeAnewHasAnotherPlace(t *testing.T) {
	m := &member{places: map[int64]uint64{}}
	for i, step := range []struct {
		op     int64
		state  engine.State
		ticket uint64
		placed bool
	}{
		{1, engine.Held, 5, false}, // it did not wait
		{2, engine.Waiting, 6, true},
		{2, engine.Waiting, 6, false},
		{2, engine.Waiting, 8, true},
		{3, engine.Waiting, 9, true},
		{2, engine.Held, 8, false},
		{3, engine.Held, 12, true}, // anew, and held at once
		{3, engine.Held, 15, true}, // that ended before anybody knew
		{3, engine.Held, 15, false},
		{4, engine.Waiting, 13, true},
		{4, engine.Gone, 0, false},
	} {
		if got := m.placed(step.op, engine.Claim{State: step.state, Ticket: step.ticket}); got != step.placed {
			t.Errorf("step %d: %v, want %v", i, got, step.placed)
		}
	}
}
