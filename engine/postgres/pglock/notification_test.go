package pglock

import (
	"encoding/hex"
	"fmt"
	"testing"

	"leasehold/engine"
)

// Whoever may notify may say anything: what no client can have joined is no notification.
func TestNotificationsOfSomebodyElse(t *testing.T) {
	id := engine.NewID()
	notification := func(state int, name string) string {
		return fmt.Sprintf("%d 1 0 7 1 2 %s %s", state, id.Secret(), hex.EncodeToString([]byte(name)))
	}
	if c, err := parseNotification(notification(2, "a b")); err != nil || c.Name != "a b" || c.ID != id || c.State != engine.Held || !c.Contended || c.Ticket != 7 {
		t.Errorf("a notification of ours is %+v, %v", c, err)
	}
	for what, text := range map[string]string{
		"nothing": "", "no name": notification(2, ""), "a name that none can be": notification(2, "a\x00"), "no state": notification(0, "a"), "no such state": notification(4, "a"),
		"half of a name": notification(2, "a")[:len(notification(2, "a"))-1], "no ID": "2 1 0 7 1 2 x 61",
	} {
		if c, err := parseNotification(text); err == nil {
			t.Errorf("%s: %+v", what, c)
		}
	}
}
