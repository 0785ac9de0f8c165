package queuelock

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"leasehold/engine"
)

// A slot whose server has lost its replica is waited for by nobody else, and what comes
// meanwhile is asked for together.
func TestConfirmationsOfASlotDelayNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		replica := make(chan struct{})
		var asked []int // how many claims of the sick slot in each request
		var told []string
		c := newConfirmations(func(_ context.Context, rs []engine.Renewal) (cs []engine.Claim, err error) {
			if rs[0].Name == "sick" {
				asked = append(asked, len(rs))
				<-replica
			}
			for _, r := range rs {
				state := engine.Held
				if r.Name == "waits" {
					state = engine.Waiting
				}
				cs = append(cs, engine.Claim{Name: r.Name, ID: r.ID, State: state})
			}
			return cs, nil
		}, func(name string) byte { return name[0] }, func(c engine.Claim) { told = append(told, c.Name) })
		add := func(name string, id engine.ID) {
			c.add(t.Context(), engine.Claim{Name: name, ID: id, State: engine.Held})
		}
		add("sick", engine.NewID())
		synctest.Wait()
		again := engine.NewID()
		for range mostUnconfirmed {
			add("sick", again) // in one renewal
		}
		for range mostUnconfirmed + 10 {
			add("sick", engine.NewID())
		}
		add("waits", engine.NewID())
		add("held", engine.NewID())
		synctest.Wait()
		if want := []string{"held"}; !slices.Equal(told, want) {
			t.Errorf("while one slot is waited for, %q are told, want %q", told, want)
		}
		close(replica)
		c.running.Wait()
		if want := []int{1, mostUnconfirmed}; !slices.Equal(asked, want) {
			t.Errorf("the requests have %v claims, want %v", asked, want)
		}
		if n := 1 + 1 + mostUnconfirmed; len(told) != n || len(c.next) > 0 {
			t.Errorf("%d are told, want %d; %d slots are taken for asked", len(told), n, len(c.next))
		}
	})
}
