package plainlock

import (
	"testing"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/lab/servers"
)

func TestATryThatArrivesLateIsVoid(t *testing.T) { t.Parallel(); kit.LateTry(t) }
func TestEveryoneOfACrowdIsServed(t *testing.T)  { t.Parallel(); kit.Crowded(t, 8, 50) }

// TestOfManyThatWereLeftEachIsVoid: a second claim that is left in doubt takes nothing from
// the mark of the first, whose try may arrive after both; and of a hundred none is lost.
func TestOfManyThatWereLeftEachIsVoid(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := open(t, "redis://"+r.Addr).(*Engine)
	ids := make([]engine.ID, 100)
	for i := range ids {
		ids[i] = engine.NewID()
		if err := e.wire.Call(within(t), e.scripts.leave, redisconn.Call{Keys: e.keys("a"), Args: []string{ids[i].Secret(), "1"}}).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for i, id := range ids {
		q := exclusive("a")
		q.ID = id
		if c, err := e.Join(within(t), q); err != nil || c.State != engine.Gone {
			t.Fatalf("a late try of claim %d of %d is %v, %v", i, len(ids), c.State, err)
		}
	}
	if c := join(t, e, exclusive("a")); c.State != engine.Held {
		t.Errorf("who comes next is %v", c.State)
	}
}
