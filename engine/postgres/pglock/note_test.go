package pglock

import (
	"encoding/hex"
	"fmt"
	"testing"

	"leasehold/engine"
)

// Whoever may notify may say anything: what no client can have joined is no note.
func TestNotesOfSomebodyElse(t *testing.T) {
	id := engine.NewID()
	note := func(state int, name string) string {
		return fmt.Sprintf("%d 1 0 7 1 2 %s %s", state, id.Secret(), hex.EncodeToString([]byte(name)))
	}
	if c, err := parseNote(note(2, "a b")); err != nil || c.Name != "a b" || c.ID != id || c.State != engine.Held || !c.Contended || c.Ticket != 7 {
		t.Errorf("a note of ours is %+v, %v", c, err)
	}
	for what, text := range map[string]string{
		"nothing": "", "no name": note(2, ""), "a name that none can be": note(2, "a\x00"), "no state": note(0, "a"), "no such state": note(4, "a"),
		"half of a name": note(2, "a")[:len(note(2, "a"))-1], "no ID": "2 1 0 7 1 2 x 61",
	} {
		if c, err := parseNote(text); err == nil {
			t.Errorf("%s: %+v", what, c)
		}
	}
}
