package records

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
)

// TestARenewalHurriesWhoIsInItsWay: calls on a name have its turn, one after the other,
// while they wait for a place to work, and all places are taken.
func TestARenewalHurriesWhoIsInItsWay(t *testing.T) {
	t.Parallel()
	e := openEngine(t, t.TempDir()+"/locks")
	c := mustJoin(t, e, exclusive("a"), engine.Held)
	for range cap(e.records.working) {
		e.records.working <- struct{}{}
	}
	const crowd = 5
	joined := make(chan engine.Claim, crowd)
	for range crowd {
		go func() {
			w, _ := e.Join(context.Background(), exclusive("a"))
			joined <- w
		}()
	}
	for e.usersOf("a") < crowd {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cs, err := e.Renew(Renewing(ctx), []engine.Renewal{{Name: "a", ID: c.ID, Want: time.Minute}})
	if err != nil || len(cs) != 1 || cs[0].State != engine.Held {
		t.Errorf("renewed as %v: %v", cs, err)
	}
	for range cap(e.records.working) {
		<-e.records.working
	}
	for range crowd {
		if w := <-joined; w.State != engine.Waiting {
			t.Errorf("it joins as %v", w)
		}
	}
	mustLeave(t, e, c, engine.Held)
}

// usersOf is how many calls hold or wait for the turn of a name.
func (c *client) usersOf(name string) int {
	c.records.mu.Lock()
	defer c.records.mu.Unlock()
	return c.records.records[name].users
}
