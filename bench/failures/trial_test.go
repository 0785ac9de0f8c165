package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"leasehold/internal/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		if err := work(); err != nil {
			os.Exit(2)
		}
		return
	}
	os.Exit(m.Run())
}

// one is the row of an engine and a fault.
func one(t *testing.T, engine, fault string) *row {
	rows := trials(regexp.MustCompile("^" + regexp.QuoteMeta(engine+", "+fault) + "$"))
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	r := rows[0]
	r.measure(t.Context())
	t.Log(r.line())
	if r.why != "" {
		t.Fatal(r.why)
	}
	return r
}

// A program that sees nothing would write a good page.
func TestTheTrialSees(t *testing.T) {
	servers.Need(t, "redis-server")
	t.Run("that a stopped holder writes when it goes on", func(t *testing.T) {
		t.Parallel()
		r := one(t, "filelock", holderStopped)
		if r.lost == 0 || r.refused == 0 || r.lostSafe != 0 || r.told[0] < outage || r.next[0] > outage || len(r.wrong()) > 0 {
			t.Errorf("lost %d, refused %d, lost of the fenced %d, told %v, next %v, wrong %v", r.lost, r.refused, r.lostSafe, r.told, r.next, r.wrong())
		}
	})
	t.Run("two holders, where the server forgot", func(t *testing.T) {
		t.Parallel()
		r := one(t, "plainlock", restartedLost)
		r.allowed = 0
		if wrong := strings.Join(r.wrong(), ", "); r.overlap == 0 || !strings.Contains(wrong, "two held") {
			t.Errorf("two held for %v, wrong: %q", r.overlap, wrong)
		}
	})
	t.Run("that a lease outlives a restart", func(t *testing.T) {
		t.Parallel()
		r := one(t, "redislock, one server", restartedKept)
		if r.kept != samples || len(r.next) != 0 || len(r.wrong()) > 0 {
			t.Errorf("%d kept, %d held by others, wrong %v", r.kept, len(r.next), r.wrong())
		}
	})
}

// Every fault of every engine is in the page: as a row, or with the reason why not.
func TestDocumentHasEveryTrial(t *testing.T) {
	rows := trials(regexp.MustCompile(""))
	for _, r := range rows {
		if r.why == "" {
			r.next, r.told, r.hit = []time.Duration{time.Second}, []time.Duration{time.Second}, 1
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
			if !strings.Contains(section, "| "+fault+" |") && !strings.Contains(section, "- *"+fault+"*: ") {
				t.Errorf("%s: nothing about %q", d.engine, fault)
			}
		}
	}
}
