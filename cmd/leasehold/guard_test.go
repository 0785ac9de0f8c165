package main

import (
	"testing"
	"time"
)

// At each moment of a story the guard says what to do.
func TestGuard(t *testing.T) {
	const s = time.Second
	const ms = time.Millisecond
	type step struct {
		at    time.Duration
		left  time.Duration // what the lease says; 0: nothing new is asked
		do    action
		again time.Duration
	}
	for _, story := range []struct {
		name  string
		g     guard
		steps []step
	}{
		{"renewed in time", guard{}, []step{
			{100 * s, 30 * s, nothing, 120 * s},
			{110 * s, 30 * s, nothing, 130 * s},
			{120 * s, 30 * s, nothing, 140 * s},
		}},
		{"renewals fail", guard{}, []step{
			{100 * s, 30 * s, nothing, 120 * s},
			{110 * s, 20 * s, nothing, 120 * s},
			{120 * s, 10 * s, notify, 129500 * ms},
			{121 * s, 9 * s, nothing, 129500 * ms}, // told once
			{129500 * ms, 500 * ms, kill, 0},
		}},
		{"a first short trust is no failure", guard{}, []step{
			{100 * s, 3 * s, nothing, 102 * s},
			{100*s + s/5, 30 * s, nothing, 120*s + s/5},
		}},
		{"renewed after TERM, and failing again", guard{}, []step{
			{100 * s, 3 * s, nothing, 102 * s},
			{102 * s, 1 * s, notify, 102850 * ms},
			{102500 * ms, 3 * s, nothing, 104500 * ms},
			{104500 * ms, 1 * s, notify, 105350 * ms},
			{105350 * ms, 150 * ms, kill, 0},
		}},
		{"nobody looked for long", guard{}, []step{
			{100 * s, 3 * s, nothing, 102 * s},
			{200 * s, 0, kill, 0},
		}},
		{"two looks at one clock are no renewal", guard{}, []step{
			{100 * s, 3 * s, nothing, 102 * s},
			{102 * s, 1001 * ms, notify, 102850 * ms},
		}},
		{"MaxHold", guard{end: 110 * s, lead: 2 * s}, []step{
			{100 * s, 30 * s, nothing, 108 * s},
			{107 * s, 30 * s, nothing, 108 * s},
			{108 * s, 29 * s, notify, 110 * s},
			{109 * s, 30 * s, nothing, 110 * s}, // a renewal is no reason to be told again
			{110 * s, 27 * s, kill, 0},
		}},
		{"trust ends before MaxHold", guard{end: 110 * s, lead: 2 * s}, []step{
			{100 * s, 3 * s, nothing, 102 * s},
			{102 * s, 0, notify, 102850 * ms},
			{102850 * ms, 0, kill, 0},
		}},
	} {
		t.Run(story.name, func(t *testing.T) {
			g := story.g
			for i, st := range story.steps {
				if st.left > 0 {
					g.trust(st.at, st.left)
				}
				do, again := g.next(st.at)
				if do != st.do || again != st.again {
					t.Fatalf("step %d: action %d, again at %v; want %d, %v", i, do, again, st.do, st.again)
				}
			}
		})
	}
}

func TestGuardFinish(t *testing.T) {
	const s = time.Second
	fresh := func() *guard {
		g := &guard{}
		g.trust(100*s, 30*s)
		return g
	}
	t.Run("grace", func(t *testing.T) {
		g := fresh()
		g.finish(101*s, s)
		if do, again := g.next(101 * s); do != notify || again != 102*s {
			t.Errorf("action %d, again at %v", do, again)
		}
		g.trust(101*s, 30*s) // renewals go on, and change nothing
		if do, _ := g.next(102 * s); do != kill {
			t.Errorf("action %d", do)
		}
	})
	t.Run("no grace", func(t *testing.T) {
		g := fresh()
		g.finish(101*s, 0)
		if do, _ := g.next(101 * s); do != kill {
			t.Errorf("action %d", do)
		}
	})
	t.Run("never past trust", func(t *testing.T) {
		g := fresh()
		g.finish(101*s, time.Hour)
		if do, again := g.next(101 * s); do != notify || again != 129500*time.Millisecond {
			t.Errorf("action %d, again at %v", do, again)
		}
	})
	t.Run("the launcher after the keeper and before the end", func(t *testing.T) {
		g := fresh()
		if last := g.lastResort(); last <= g.until-g.killTime() || last >= g.until {
			t.Errorf("the launcher acts at %v", last)
		}
	})
	t.Run("not put off", func(t *testing.T) {
		g := fresh()
		g.finish(101*s, s)
		g.finish(101*s+s/2, s)
		if do, _ := g.next(102 * s); do != kill {
			t.Errorf("action %d", do)
		}
	})
}
