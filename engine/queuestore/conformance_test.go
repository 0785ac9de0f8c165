package queuestore_test

import (
	"testing"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/queuestore"
	"leasehold/lab/servers"
)

// The suite over every kind of store that the interface allows.
func TestConformance(t *testing.T) {
	kinds := map[string]struct {
		make func(*world)
		long bool // left out with -short: others are of its family
	}{
		"a store of bytes":                 {make: func(*world) {}},
		"clients with lives":               {make: func(w *world) { w.mortal = true }, long: true},
		"nobody is told":                   {make: func(w *world) { w.mute = true }, long: true},
		"nobody is told and clients live":  {make: func(w *world) { w.mute, w.mortal = true, true }},
		"one record a page":                {make: func(w *world) { w.page = 1 }},
		"a conflict every time":            {make: tries(false, false), long: true},
		"stored every time, and not sure":  {make: tries(true, true), long: true},
		"lost every time, and not sure":    {make: tries(false, true)},
		"not sure, and clients with lives": {make: func(w *world) { tries(true, true)(w); w.mortal = true }},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && kind.long {
				servers.LeftOut(t, "it is one of nine kinds of store")
			}
			w := newWorld()
			kind.make(w)
			h := enginetest.Harness{
				Name: "queuestore", New: func(testing.TB) engine.Engine { return w.open() },
				Now: w.Now, Sleep: w.Sleep, CountKeys: func(testing.TB) int { return w.count() },
				Polls: w.mute,
			}
			if w.mortal {
				h.Kill = func(_ testing.TB, e engine.Engine) { w.kill(e.(*queuestore.Engine)) }
			}
			enginetest.Run(t, h)
			w.polls.Wait()
		})
	}
}

// tries makes an attempt before each that is stored for certain.
func tries(kept, indeterminate bool) func(*world) {
	return func(w *world) {
		w.before = func(_ string, try func(kept, indeterminate bool) error) { _ = try(kept, indeterminate) }
	}
}
