package queuestore_test

import (
	"testing"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/queuestore"
)

// The suite over every kind of store that the interface allows.
func TestConformance(t *testing.T) {
	kinds := map[string]func(*world){
		"a store of bytes":                 func(*world) {},
		"clients with lives":               func(w *world) { w.mortal = true },
		"nobody is told":                   func(w *world) { w.mute = true },
		"nobody is told and clients live":  func(w *world) { w.mute, w.mortal = true, true },
		"one record a page":                func(w *world) { w.page = 1 },
		"a conflict every time":            tries(false, false),
		"stored every time, and not sure":  tries(true, true),
		"lost every time, and not sure":    tries(false, true),
		"not sure, and clients with lives": func(w *world) { tries(true, true)(w); w.mortal = true },
	}
	for name, make := range kinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			make(w)
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
