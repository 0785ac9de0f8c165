package main

import (
	"slices"
	"testing"
	"time"

	"leasehold/engine"
)

// What has not changed since the last look is not told again, and who left leaves once.
func TestChangesAreNotifiedOnce(t *testing.T) {
	var notified []string
	see := (&watcher{}).changes(func(c change) error {
		notified = append(notified, c.What)
		return nil
	})
	held := engine.Claim{Name: "a", Ticket: 1, State: engine.Held}
	waits := engine.Claim{Name: "a", Ticket: 2, State: engine.Waiting}
	granted, revoked := waits, held
	granted.State, revoked.Revoked = engine.Held, true
	for _, look := range []struct {
		claims []engine.Claim
		want   []string
	}{
		{[]engine.Claim{held}, []string{"holds"}},
		{[]engine.Claim{held}, nil},
		{[]engine.Claim{held, waits}, []string{"waits"}},
		{[]engine.Claim{revoked, waits}, []string{"revoked"}},
		{[]engine.Claim{granted}, []string{"holds", "left"}},
		{[]engine.Claim{granted}, nil},
		{nil, []string{"left"}},
		{nil, nil},
		{[]engine.Claim{held}, []string{"holds"}},
	} {
		notified = nil
		if err := see([]engine.Queue{{Name: "a", Claims: look.claims}}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(notified, look.want) {
			t.Errorf("told %q, want %q", notified, look.want)
		}
	}
}

// Clocks of two machines disagree: nobody has waited for less than nothing.
func TestSinceIsNeverNegative(t *testing.T) {
	now := time.Now()
	for since, want := range map[time.Time]string{{}: "?", now.Add(time.Hour): "0s", now.Add(-time.Minute): "1m0s"} {
		if got := sinceText(since, now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
