package lives

import (
	"bytes"
	"fmt"
	"testing"

	"leasehold/engine"
)

func TestANoteLosesWhatItSays(t *testing.T) {
	for state := engine.Unknown; state <= engine.Gone; state++ {
		for flags := range 4 {
			c := engine.Claim{Name: "a name", ID: engine.NewID(), Ticket: engine.MaxTicket, Units: 3, Limit: engine.Max,
				State: state, Contended: flags&1 != 0, Evicted: flags&2 != 0}
			if got, ok := parseNote(appendNote(nil, &c)); !ok || fmt.Sprintf("%+v %s", got, got.ID.Secret()) != fmt.Sprintf("%+v %s", c, c.ID.Secret()) {
				t.Errorf("%+v arrives as %+v", c, got)
			}
		}
	}
}

func FuzzNote(f *testing.F) {
	f.Add(appendNote(nil, &engine.Claim{Name: "x", ID: engine.NewID(), State: engine.Held, Contended: true}))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := parseNote(b); ok && !bytes.Equal(appendNote(nil, &c), b) && b[1] < 4 {
			t.Fatal("a note changes when it is read and written")
		}
	})
}
