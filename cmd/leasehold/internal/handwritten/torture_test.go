package handwritten_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/cmd/leasehold/internal/handwritten"
	"leasehold/lab/servers"
	"leasehold/torture"
	"leasehold/torture/check"
)

var (
	allBroken = flag.Bool("broken.all", false, "torture every lock, not a few")
	inTime    = flag.Duration("broken.within", 2*time.Minute, "the time in which what is wrong with a lock must be found")
	rightFor  = flag.Duration("broken.right", 0, "how long the right lock is tortured (default 15s; 5s with -short)")
)

// TestMain is also the clients of the trials.
func TestMain(m *testing.M) {
	if torture.Client(openArticle) {
		return
	}
	os.Exit(m.Run())
}

// tortureSeed is that of every trial here.
const tortureSeed = 28

// tortured is a lock of an article, and what torture must say of it.
type tortured struct {
	article string
	found   check.Property
	nemeses []torture.Nemesis
	sample  bool // it is one of the few that every run of the tests looks for
}

func wrongs() []tortured {
	return []tortured{
		{article: "setnx", found: check.Liveness, nemeses: []torture.Nemesis{torture.Kill()}},
		{article: "setnx-expire", found: check.Liveness, nemeses: []torture.Nemesis{torture.Wire()}},
		{article: "multi", found: check.Liveness, nemeses: []torture.Nemesis{torture.Kill()}},
		{article: "setpx-believed", found: check.Exclusion, sample: true},
		{article: "setpx-del", found: check.Exclusion, nemeses: []torture.Nemesis{torture.Stop()}, sample: true},
		{article: "setpx-get-del", found: check.Exclusion, nemeses: []torture.Nemesis{torture.Wire()}},
		{article: "json", found: check.Exclusion},
		{article: "getset", found: check.Exclusion},
		{article: "row", found: check.Exclusion},
		{article: "tutorial", found: check.Exclusion},
	}
}

// trial makes a trial until it has found what is sought.
func trial(t *testing.T, o torture.Options, sought check.Property) *check.Result {
	o.Open, o.Seed, o.Dir = openArticle, tortureSeed, filepath.Join(t.TempDir(), "out")
	o.Clients, o.Names, o.TTL = 3, 3, 400*time.Millisecond
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	o.Judged = func(r *check.Result) {
		if sought != "" && r.Of(sought).Word == check.Violated {
			enough()
		}
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

// serverOf starts the server of an article, and returns its URL.
func serverOf(t *testing.T, article string) string {
	switch article {
	case "tutorial":
		return "zookeeper://" + servers.ZooKeeper(t, nil).Addr
	case "row":
	default:
		return "redis://" + servers.Redis(t, nil).Addr
	}
	db, url := database(t, handwritten.Table)
	go func() {
		for t.Context().Err() == nil {
			_ = handwritten.Sweep(t.Context(), db, 400*time.Millisecond)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return url
}

// Torture finds what is wrong with each lock that people copy, on a real server.
func TestTortureFindsTheLocksOfArticles(t *testing.T) {
	for _, x := range wrongs() {
		if !x.sample && !*allBroken {
			continue
		}
		t.Run(x.article, func(t *testing.T) {
			t.Parallel()
			r := trial(t, torture.Options{URL: x.article + "+" + serverOf(t, x.article), For: *inTime, Nemeses: x.nemeses}, x.found)
			if v := r.Of(x.found); v.Word != check.Violated {
				t.Fatalf("%+v: it was to be found. All: %+v", v, r.Verdicts)
			}
			var also []string
			for _, v := range r.Verdicts {
				if v.Word == check.Violated && v.Property != x.found {
					also = append(also, string(v.Property))
				}
			}
			for _, f := range r.Findings {
				if f.Property == x.found {
					t.Logf("| %s | %s | %.1f s | %d | also %s", x.article, x.found, f.At.Seconds(), tortureSeed, strings.Join(also, ", "))
					break
				}
			}
		})
	}
}

// On the same server the same trial finds nothing wrong with a lock of ours. Neither does it
// with the one of the articles that is right as long as nobody trusts it beyond the expiry.
func TestTortureFindsNothingWrongWithTheRightLocks(t *testing.T) {
	long := cmp.Or(*rightFor, 15*time.Second)
	if testing.Short() {
		long = cmp.Or(*rightFor, 5*time.Second)
	}
	for name, url := range map[string]string{
		"a queue": "redis://%s", "the layout of the articles": "redis://%s?layout=plain", "SET NX PX": "setpx+redis://%s",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := trial(t, torture.Options{
				URL: fmt.Sprintf(url, servers.Redis(t, nil).Addr), For: long,
				Nemeses: []torture.Nemesis{torture.Kill(), torture.Stop(), torture.Wire()},
			}, "")
			for _, v := range r.Verdicts {
				// A lock of the articles has no tickets: each client counts its own.
				if v.Word == check.Violated && (v.Property != check.Queue || name != "SET NX PX") {
					t.Errorf("%+v: %+v", v, r.Findings)
				}
			}
		})
	}
}
