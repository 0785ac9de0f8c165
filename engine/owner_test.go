package engine_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leasehold/engine"
)

func TestOwnerThatFitsFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z<>&"\\]{0,200}`))
		o := engine.Owner{
			Host:  text.Draw(t, "host"),
			PID:   rapid.IntRange(0, 1<<31-1).Draw(t, "pid"),
			Label: text.Draw(t, "label"),
			Since: time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "since"), 123456789),
		}
		for range rapid.IntRange(0, 20).Draw(t, "holds") {
			o.Holds = append(o.Holds, engine.Hold{Name: text.Draw(t, "name"), Ticket: rapid.Uint64Max(engine.MaxTicket).Draw(t, "ticket"), Elsewhere: rapid.Bool().Draw(t, "elsewhere")})
		}
		if n := len(o.Text()); o.Fits() != (n <= engine.MaxOwner) {
			t.Fatalf("Fits says %v of %d bytes", o.Fits(), n)
		}
	})
}

func TestOwnerSurvivesItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := engine.Owner{Host: rapid.String().Draw(t, "host"), PID: rapid.Int().Draw(t, "pid"), Label: rapid.String().Draw(t, "label"),
			Holds: []engine.Hold{{Name: "x", Ticket: 1<<53 - 1, Elsewhere: rapid.Bool().Draw(t, "elsewhere")}}}
		got := engine.ParseOwner(o.Text())
		if got.Text() != o.Text() || got.Holds[0] != o.Holds[0] {
			t.Fatalf("%+v became %+v", o, got)
		}
	})
	if got := engine.ParseOwner("not ours"); got.Label != "not ours" {
		t.Errorf("%+v", got)
	}
}

func TestPlainOwnersAreWrittenAsJSONWritesThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]{0,40}`))
		o := engine.Owner{
			Host:  text.Draw(t, "host"),
			PID:   rapid.Int().Draw(t, "pid"),
			Label: text.Draw(t, "label"),
			Since: time.Unix(rapid.Int64Range(-1<<36, 1<<37).Draw(t, "since"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
		}
		for range rapid.IntRange(0, 3).Draw(t, "holds") {
			o.Holds = append(o.Holds, engine.Hold{Name: text.Draw(t, "name"), Ticket: rapid.Uint64().Draw(t, "ticket"), Elsewhere: rapid.Bool().Draw(t, "elsewhere")})
		}
		want, err := json.Marshal(o)
		if err == nil && o.Text() != string(want) {
			t.Fatalf("%s, JSON writes %s", o.Text(), want)
		}
	})
}

func TestIDsAreNotPrinted(t *testing.T) {
	id := engine.NewID()
	back, err := engine.ParseID(id.Secret())
	if err != nil || back != id || id == engine.NewID() {
		t.Fatal(back, err)
	}
	if id.String() == id.Secret() || id.GoString() == id.Secret() {
		t.Error("an ID prints itself")
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("joined", "id", id)
	if !strings.Contains(log.String(), `"id":"ID (secret)"`) {
		t.Errorf("a log in JSON: %s", log.String())
	}
	for _, bad := range []string{"", "00", id.Secret()[:31], id.Secret() + "0", "zz" + id.Secret()[2:]} {
		if _, err := engine.ParseID(bad); err == nil {
			t.Errorf("%q is an ID", bad)
		}
	}
}
