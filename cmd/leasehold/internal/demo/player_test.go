package demo

import (
	"context"
	"strings"
	"testing"
)

// early is a lock whose client sees the end of the time before the context has ended.
type early struct{ player }

func (early) lock(context.Context, string) error { return context.DeadlineExceeded }

func TestALockThatGaveUpIsNotHeld(t *testing.T) {
	said, err := carryOut(t.Context(), early{}, []string{"lock", item, "1m"})
	if err != nil || !strings.HasPrefix(said, no+" gave up after") {
		t.Errorf("%q, %v", said, err)
	}
}
