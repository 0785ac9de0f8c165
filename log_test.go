package leasehold

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// An operator has the log, and asks what was lost, why, since when the engine was silent,
// and who holds the name now.
func TestTheLogOfALostLease(t *testing.T) {
	bubble(t, func(w *world) {
		var log bytes.Buffer
		began := time.Now()
		// With the level that programs have: renewals and the like are not in the log.
		c, f := w.client(&Options{TTL: 10 * time.Second, Label: "first", Observer: LogTo(slog.New(slog.NewTextHandler(&log, nil)))})
		other, _ := w.client(&Options{Label: "second"})
		l := mustLock(t, c, "stock:42")
		time.Sleep(5 * time.Second)
		proven := time.Duration(0) // when the engine answered for the last time, since began
		hangs := func(ctx context.Context, _ []engine.Renewal, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		f.set(func(f *faulty) { f.renew = hangs })
		c.core.mu.Lock()
		proven = l.handle.Claim().Proof() - w.clock() + time.Since(began)
		c.core.mu.Unlock()
		next := mustLock(t, other, "stock:42") // when the engine lets the claim expire
		f.set(func(f *faulty) { f.renew = nil })
		time.Sleep(3 * time.Second)
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		find := func(what string) string {
			t.Helper()
			i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, what) })
			if i < 0 {
				t.Fatalf("no line says %q in\n%s", what, log.String())
			}
			return lines[i]
		}
		lost := find(`"leasehold: lost"`)
		for _, part := range []string{"level=ERROR", "name=stock:42", "token=" + l.Token().String(), "reason=expired", "the engine answered no renewal"} {
			if !strings.Contains(lost, part) {
				t.Errorf("the loss does not say %q: %s", part, lost)
			}
		}
		at, silent := regexp.MustCompile(`time=(\S+)`).FindStringSubmatch(lost), regexp.MustCompile(`silent=(\S+)`).FindStringSubmatch(lost)
		if at == nil || silent == nil {
			t.Fatalf("the loss does not say since when the engine was silent: %s", lost)
		}
		when, err := time.Parse(time.RFC3339, at[1])
		long, err2 := time.ParseDuration(silent[1])
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		if got := when.Add(-long); got.Sub(began.Add(proven)).Abs() > time.Millisecond {
			t.Errorf("the engine was silent since %v, want %v: %s", got, began.Add(proven), lost)
		}
		after := find(`"leasehold: after loss"`)
		host, _ := os.Hostname()
		for _, part := range []string{"level=INFO", "name=stock:42", "token=" + l.Token().String(), host, fmt.Sprint(os.Getpid()), "second", fmt.Sprintf("ticket=%d", next.Token().Ticket())} {
			if !strings.Contains(after, part) {
				t.Errorf("what came after the loss does not say %q: %s", part, after)
			}
		}
		l.Unlock()
		mustUnlock(t, next)
	})
}

// The name may be nobody's, the engine may come back late or not at all, and many may be
// lost at once. Whatever it is, the looks have a bound.
func TestAfterALoss(t *testing.T) {
	for what, c := range map[string]struct {
		away   time.Duration // how long the engine is, from the loss on
		leases int
		want   int // events
	}{
		"nobody holds it":           {0, 1, 1},
		"the engine is back late":   {30 * time.Second, 1, 1},
		"the engine stays away":     {2 * time.Hour, 1, 0},
		"a crowd is lost at once":   {0, 100, maxLosses},
		"a crowd, and nobody there": {2 * time.Hour, 100, 0},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				var events []Event
				c2, f := w.client(&Options{TTL: 10 * time.Second, Observer: func(e Event) {
					if e.Kind == EventAfterLoss {
						events = append(events, e)
					}
				}})
				var leases []*Lease
				for i := range c.leases {
					leases = append(leases, mustLock(t, c2, fmt.Sprint("x", i)))
				}
				if c.away > 0 {
					f.set(func(f *faulty) { f.renew, f.line = cutRenew, cutQueue })
				} else {
					f.set(func(f *faulty) { f.renew = cutRenew })
				}
				for _, l := range leases {
					<-l.Context().Done()
				}
				time.Sleep(c.away)
				f.set(func(f *faulty) { f.line = nil })
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if len(events) != c.want {
					t.Errorf("%d events, want %d", len(events), c.want)
				}
				for _, e := range events {
					if e.Err != nil {
						t.Errorf("%s: got %v, want that nobody holds it", e.Name, e.Err)
					}
				}
			})
		})
	}
}

func cutQueue(context.Context, func() (engine.Queue, error)) (engine.Queue, error) {
	return engine.Queue{}, errCut
}
