package main

import (
	"testing"
	"time"
)

// patience bounds every wait for something that must happen. It is no
// measure of how fast it should.
const patience = time.Minute

// until waits for something to become true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
