package optimistic_test

import (
	"context"
	"strings"
	"testing"

	"leasehold/optimistic"
)

type pgState string

func (s pgState) Error() string    { return "SQLSTATE " + string(s) }
func (s pgState) SQLState() string { return string(s) }

// In a transaction that an error has ended PostgreSQL refuses every attempt: what to do is
// said, and nothing is tried again.
func TestATransactionThatHasEndedIsNamed(t *testing.T) {
	reads := 0
	_, err := optimistic.Update(t.Context(), nil, optimistic.Row[int]{
		Read: func(context.Context) (int, error) {
			if reads++; reads == 1 {
				return 1, nil
			}
			return 0, pgState("25P02")
		},
		Write: func(context.Context, int, int) (bool, error) { return false, pgState("40001") },
	}, func(n int) (int, error) { return n + 1, nil })
	if err == nil || !strings.Contains(err.Error(), "its own transaction") || reads != 2 {
		t.Errorf("after %d reads: %v", reads, err)
	}
}

// The statement that is refused may as well be the one that writes.
func TestATransactionThatHasEndedIsNamedByAWrite(t *testing.T) {
	_, err := optimistic.Update(t.Context(), nil, optimistic.Row[int]{
		Read:  func(context.Context) (int, error) { return 1, nil },
		Write: func(context.Context, int, int) (bool, error) { return false, pgState("25P02") },
	}, func(n int) (int, error) { return n + 1, nil })
	if err == nil || !strings.Contains(err.Error(), "its own transaction") {
		t.Errorf("it says %v", err)
	}
}
