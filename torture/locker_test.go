package torture

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/torture/history"
)

// library is one whose locks are lost when lost is closed, and which nobody asks for more.
type library struct {
	engine.Engine
	lost chan struct{}
}

func (library) Begin(context.Context) error { return nil }

func (l library) Lock(_ context.Context, _ string, try bool) (Held, error) {
	if try {
		return nil, leasehold.ErrHeld
	}
	return l, nil
}

func (l library) Valid() bool {
	select {
	case <-l.lost:
		return false
	default:
		return true
	}
}

func (l library) Lost() <-chan struct{} { return l.lost }

func (l library) Unlock() error {
	if l.Valid() {
		return nil
	}
	return leasehold.ErrLost
}

// What the library tells and is asked is what the history has, and nothing else is.
func TestAClientLocksByAnotherLibraryAlone(t *testing.T) {
	for _, lost := range []bool{false, true} {
		l := library{lost: make(chan struct{})}
		in, out := io.Pipe()
		m := &member{others: l, out: json.NewEncoder(untilClosed{out}), awaiting: map[int64]chan told{}, job: job{TTL: time.Second}}
		var all []said
		done, heard := make(chan struct{}), make(chan struct{}, 1)
		go func() {
			defer close(done)
			for lines := json.NewDecoder(in); ; {
				var s said
				if lines.Decode(&s) != nil {
					return
				}
				all = append(all, s)
				if s.Event != nil && s.Event.Kind == history.Lost {
					select {
					case heard <- struct{}{}:
					default:
					}
				}
				if s.Ask != 0 {
					m.answer(told{Answer: s.Ask})
				}
			}
		}()
		h := m.acquire(t.Context(), want{what: history.Lock, name: "n", permits: engine.Max, limit: engine.Max})
		bound, cancel := h.Bind(t.Context())
		if lost {
			close(l.lost)
			<-bound.Done()
			if !errors.Is(context.Cause(bound), leasehold.ErrLost) {
				t.Errorf("the work ends with %v", context.Cause(bound))
			}
			select {
			case <-heard: // what began says so to the witness, too
			case <-time.After(time.Minute):
				t.Error("the witness is not told of the loss")
			}
		}
		m.use(t.Context(), h, 0, rand.New(rand.NewPCG(1, 1)))
		m.unlock(h)
		cancel()
		m.acquire(t.Context(), want{what: history.Try, name: "n", permits: engine.Max, limit: engine.Max})
		out.Close()
		<-done
		marks, losses, results := 0, 0, []string{}
		for _, s := range all {
			switch {
			case s.Mark != 0 && s.Valid:
				marks++
			case s.Event != nil && s.Event.Kind == history.Lost:
				losses++
			case s.Event != nil && s.Event.Kind == history.Answer:
				results = append(results, s.Event.Result)
			}
		}
		want := [3]string{history.OK, history.OK, history.Taken}
		if lost {
			want[1] = history.Gone
		}
		if lost != (marks == 0) || lost != (losses == 1) || len(results) != 3 || [3]string(results) != want {
			t.Errorf("lost %v: %d marks, %d losses, answers %v", lost, marks, losses, results)
		}
	}
}
