package liveness

import (
	"bytes"
	"fmt"
	"testing"

	"leasehold/engine"
)

func TestANotificationLosesWhatItSays(t *testing.T) {
	for state := engine.Unknown; state <= engine.Gone; state++ {
		for flags := range 4 {
			c := engine.Claim{Name: "a name", ID: engine.NewID(), Ticket: engine.MaxTicket, Permits: 3, Limit: engine.Max,
				State: state, Contended: flags&1 != 0, Revoked: flags&2 != 0}
			if got, ok := parseNotification(appendNotification(nil, &c)); !ok || fmt.Sprintf("%+v %s", got, got.ID.Secret()) != fmt.Sprintf("%+v %s", c, c.ID.Secret()) {
				t.Errorf("%+v arrives as %+v", c, got)
			}
		}
	}
}

func FuzzNotification(f *testing.F) {
	f.Add(appendNotification(nil, &engine.Claim{Name: "x", ID: engine.NewID(), State: engine.Held, Contended: true}))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := parseNotification(b); ok && !bytes.Equal(appendNotification(nil, &c), b) && b[1] < 4 {
			t.Fatal("a notification changes when it is read and written")
		}
	})
}
