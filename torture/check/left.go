package check

import (
	"fmt"

	"leasehold/torture/history"
)

// leftovers: when all clients have ended, nothing is left of them.
func (t *trial) leftovers() {
	for i := range t.events {
		e := &t.events[i]
		if e.Kind != history.Left {
			continue
		}
		t.judged[Nothing]++
		if e.Value == 0 {
			continue
		}
		text := fmt.Sprintf("%d %s are left behind", e.Value, e.What)
		if e.Error != "" {
			text += ": " + e.Error
		}
		t.report(Finding{Property: Nothing, At: e.At, Lines: lines(i), Text: text})
	}
}
