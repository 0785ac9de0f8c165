package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"leasehold/lab/servers"
)

func TestMain(m *testing.M) {
	if is, err := part(); is {
		if err != nil {
			os.Exit(2)
		}
		return
	}
	os.Exit(m.Run())
}

// one is the row of an engine and a fault, with leases of that TTL.
func one(t *testing.T, engine, fault string, lease time.Duration) *row {
	rows := trials(regexp.MustCompile("^" + regexp.QuoteMeta(engine+", "+fault) + "$"))
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	r := rows[0]
	r.lease = lease
	r.measure(t.Context())
	t.Log(r.line())
	if r.why != "" || r.void != "" {
		t.Fatal(r.why, r.void)
	}
	return r
}

// A program that sees nothing would write a good page.
func TestTheTrialSees(t *testing.T) {
	servers.Need(t, "redis-server")
	t.Run("that a stopped holder writes when it goes on", func(t *testing.T) {
		t.Parallel()
		r := one(t, "filelock", holderStopped, 2*ttl)
		if r.lost == 0 || r.refused == 0 || r.lostSafe != 0 || r.notified[0] < outage || r.next[0] > outage || len(r.wrong()) > 0 {
			t.Errorf("lost %d, refused %d, lost of the fenced %d, told %v, next %v, wrong %v", r.lost, r.refused, r.lostSafe, r.notified, r.next, r.wrong())
		}
	})
	t.Run("two holders, where the server forgot", func(t *testing.T) {
		t.Parallel()
		for range 5 { // a holder that asks first after the restart learns of its loss before another holds
			r := one(t, "plainlock", restartedLost, ttl)
			r.allowed = 0
			if wrong := strings.Join(r.wrong(), ", "); r.overlap > 0 && strings.Contains(wrong, "two held") {
				return
			}
		}
		t.Error("two never held")
	})
	t.Run("that a lease outlives a restart", func(t *testing.T) {
		t.Parallel()
		r := one(t, "queuelock, one server", restartedKept, 4*ttl) // which a slow start does not outlast
		if r.kept != samples || len(r.next) != 0 || len(r.wrong()) > 0 {
			t.Errorf("%d kept, %d held by others, wrong %v", r.kept, len(r.next), r.wrong())
		}
	})
}

// What is broken, and what shows nothing, does not look as if nothing was wrong.
func TestTheVerdictSees(t *testing.T) {
	const s = int64(time.Second)
	good := func() *history { // the fault came at 10 s
		return &history{
			resource: resource{unfenced: 5, fenced: 5, written: 5, writtenFenced: 5}, later: 2,
			first: said{At: 1 * s, Token: 7}, lost: said{At: 12 * s}, second: said{At: 13 * s, Token: 8}, until: 12 * s,
		}
	}
	for _, test := range []struct {
		what, fault, want string
		of                func(*row, *history)
	}{
		{"nothing", holderCut, "", func(*row, *history) {}},
		{"two that hold", holderCut, "two held for 1s", func(_ *row, h *history) { h.lost.At = 14 * s }},
		{"a stopped one that trusts its lease", holderStopped, "two held for 2s", func(_ *row, h *history) { h.lost.At, h.until = 20*s, 15*s }},
		{"a holder that nobody tells", holderCut, "1 holders were not told", func(_ *row, h *history) { h.lost.At = 0 }},
		{"how long one that nobody tells holds", holderCut, "two held for 7s", func(_ *row, h *history) { h.lost.At = 0 }},
		{"a stopped one that writes nothing late", holderStopped, "the trial shows nothing", func(r *row, _ *history) { r.refused = 0 }},
		{"a stopped one that is refused", holderStopped, "", func(*row, *history) {}},
		{"a token that falls", holderCut, "1 tokens did not rise", func(_ *row, h *history) { h.second.Token = 7 }},
		{"a token that falls where a lease was kept", restartedKept, "1 tokens did not rise", func(r *row, h *history) { h.second.Token, h.kept, r.kept = 7, true, 1 }},
		{"an update that is lost", holderCut, "1 updates vanished", func(_ *row, h *history) { h.fenced = 4 }},
		{"that nobody wrote", holderKilled, "wrote nothing", func(_ *row, h *history) { h.later = 0 }},
		{"a fault that never came", holderCut, "the fault did not come", func(r *row, h *history) { h.lost.At, h.kept, r.kept = 0, true, 1 }},
		{"a lease that rightly went on", restartedKept, "", func(r *row, h *history) { h.lost.At, h.kept, r.kept = 0, true, 1 }},
		{"two that never hold, where nothing keeps them from it", lagged, "too weak", func(r *row, _ *history) { r.shows = true }},
		{"two that hold, where nothing keeps them from it", lagged, "", func(r *row, h *history) { h.lost.At, r.shows, r.allowed = 14*s, true, time.Second }},
		{"that nobody ever held again", holderCut, "nobody held", func(r *row, _ *history) { r.stuck = "nobody held" }},
		{"that there is no server", holderCut, "no server", func(r *row, _ *history) { r.void = "no server" }},
		{"what the engine cannot have", holderCut, "", func(r *row, _ *history) { r.why = "there is no network" }},
	} {
		t.Run(test.what, func(t *testing.T) {
			r, h := &row{fault: test.fault, fencing: true, hit: 1, refused: 1}, good()
			test.of(r, h)
			r.count(h, 10*s, 20*s)
			got := strings.Join(r.wrong(), ", ")
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("wrong: %q, want %q", got, test.want)
			}
		})
	}
}

// A trial that cannot be made is no trial that went well.
func TestATrialThatCannotBeMadeIsVoid(t *testing.T) {
	r := &row{start: func(s *stage, _ string) world { s.Skipf("not installed"); return world{} }}
	r.measure(t.Context())
	if wrong := r.wrong(); len(wrong) != 1 || !strings.Contains(wrong[0], "not installed") {
		t.Errorf("%q", wrong)
	}
}

// Every fault of every engine is in the page: as a row, or with the reason why not.
// (But for those that only some engines have: see deployment.has.)
func TestDocumentHasEveryTrial(t *testing.T) {
	rows := trials(regexp.MustCompile(""))
	for _, r := range rows {
		if r.why == "" {
			r.next, r.notified, r.hit = []time.Duration{time.Second}, []time.Duration{time.Second}, 1
		}
	}
	page := string(document(rows, time.Minute))
	for _, d := range deployments() {
		_, section, found := strings.Cut(page, "\n## "+d.engine+"\n")
		if !found {
			t.Errorf("no section %q", d.engine)
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		for _, fault := range faults() {
			if !d.has(fault) {
				continue // a row of others alone
			}
			if !strings.Contains(section, "| "+fault+" |") && !strings.Contains(section, "- *"+fault+"*: ") {
				t.Errorf("%s: nothing about %q", d.engine, fault)
			}
		}
	}
}

// A part of the trials renews its own sections, and no other.
func TestAPartRenewsItsSections(t *testing.T) {
	all := trials(regexp.MustCompile(""))
	for _, r := range all {
		r.kept, r.hit = 1, 1
	}
	old := document(all, time.Minute)
	again := trials(regexp.MustCompile("^filelock,"))
	for _, r := range again {
		r.next, r.hit = []time.Duration{7 * time.Second}, 1
	}
	page, err := renewed(old, again)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.SplitAfter(string(old), "\n"), strings.SplitAfter(string(page), "\n")
	if len(was) != len(is) {
		t.Fatalf("%d lines, want %d:\n%s", len(is), len(was), page)
	}
	section := ""
	for i := range was {
		if strings.HasPrefix(was[i], "## ") {
			section = strings.TrimSpace(was[i])
		}
		if was[i] != is[i] && section != "## filelock" {
			t.Errorf("line %d of %q has changed from %q to %q", i+1, section, was[i], is[i])
		}
	}
	if !strings.Contains(string(page), "7.0 s") {
		t.Error("the section is the old one")
	}
	if _, err := renewed(old, trials(regexp.MustCompile("filelock, the holder"))); err == nil {
		t.Error("half of the trials of an engine are its section")
	}
}
