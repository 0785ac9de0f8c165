package queue_test

import (
	"testing"

	"pgregory.net/rapid"
)

// Any sequence of calls at any times agrees with the model.
func TestTheQueueDiffersFromItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }, t.Fatalf)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			d.step()
		}
	})
}

// FuzzQueue is the same with choices that the fuzzer makes, one byte each.
//
//	go test -fuzz FuzzQueue ./engine/queue
func FuzzQueue(f *testing.F) {
	f.Add([]byte("joining, waiting, holding, leaving"))
	f.Add([]byte{0, 0, 5, 4, 1, 3, 0, 0, 0, 0, 0, 5, 4, 1, 0, 0, 0, 0, 3, 7, 0, 0, 4, 1, 2})
	f.Fuzz(func(t *testing.T, choices []byte) {
		choices = choices[:min(len(choices), 1024)]
		d := newDriver(func(_ string, n int) int {
			if len(choices) == 0 {
				return 0
			}
			c := int(choices[0]) % n
			choices = choices[1:]
			return c
		}, t.Fatalf)
		for len(choices) > 0 {
			d.step()
		}
	})
}
