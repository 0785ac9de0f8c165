package torture_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"leasehold/engine/enginetest/broken"
	"leasehold/lab/servers"
	"leasehold/torture"
	"leasehold/torture/check"
)

// A trial says what it could not have shown, and what the engine declares must be seen.
func TestWhatATrialSaysOfItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		client  string
		nemesis string
		length  time.Duration
		word    check.Word // of exclusion
		long    bool       // it is left to make broken
		full    bool       // it is left out with -short
		why     string
	}{
		"no faults":                          {full: true, length: time.Minute, word: check.Void, why: "there were no faults"},
		"few leases":                         {length: 1500 * time.Millisecond, nemesis: "kill", word: check.Void, why: "leases, of at least 500"},
		"few faults":                         {long: true, length: 20 * time.Second, nemesis: "kill", word: check.Void, why: "had an effect while somebody held a lease, of at least 20"},
		"a failover that shows nothing":      {length: 10 * time.Second, client: "doubles", nemesis: "good failover", word: check.TooWeak, why: "did not show it"},
		"no failover":                        {full: true, length: 10 * time.Second, client: "doubles", nemesis: "kill", word: check.TooWeak, why: "there was no failover"},
		"a failover that is declared":        {length: time.Minute, client: "doubles", nemesis: "failover", word: check.AsDeclared, why: "the engine promises nothing"},
		"a failover that is not declared":    {length: time.Minute, nemesis: "failover", word: check.Violated},
		"a restart, and a memory as assumed": {length: time.Minute, nemesis: "restart", long: true, word: check.AsDeclared},
	} {
		if c.long && !*allBroken {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if c.full && testing.Short() {
				servers.LeftOut(t, fmt.Sprintf("it takes up to %v", c.length))
			}
			t.Parallel()
			trial := func() *check.Result {
				w, url := serve(t, broken.Fault{})
				x := wrong{client: c.client, nemeses: c.nemesis}
				o := x.options(t, w, url)
				o.For, o.Names = c.length, 8
				ctx, enough := context.WithCancel(t.Context())
				defer enough()
				if c.length >= time.Minute { // it is to be seen, and has a while for it
					o.Judged = func(r *check.Result) {
						if v := r.Of(check.Exclusion); v.Word == c.word && strings.Contains(v.Why, c.why) {
							enough()
						}
					}
				}
				if c.word == check.AsDeclared || c.word == check.Violated { // two hold sooner if leases are short and names few
					o.TTL, o.Names = time.Second, 2
				}
				if _, err := torture.Run(ctx, o); err != nil {
					t.Fatal(err)
				}
				r, err := torture.Judge(o.Dir)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			r := trial()
			for try := 2; try <= 3 && c.why == "did not show it" && strings.Contains(r.Of(check.Exclusion).Why, "there was no failover"); try++ {
				r = trial() // its clients came so late that nothing struck
			}
			if v := r.Of(check.Exclusion); v.Word != c.word || !strings.Contains(v.Why, c.why) || v.Bound != 0 {
				t.Errorf("exclusion: %+v, want %s because of %q", v, c.word, c.why)
			}
			for _, v := range r.Verdicts {
				if v.Word == check.Violated && c.word != check.Violated {
					t.Errorf("%+v: %+v", v, r.Findings)
				}
			}
		})
	}
}
