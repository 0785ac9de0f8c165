package engine

import (
	"slices"
	"testing"
	"time"
)

func TestGuaranteesMissingComparesEachPart(t *testing.T) {
	have := Guarantees{Order: FIFO, Modes: Exclusive | Shared, Fencing: FencingMemory, Failover: FailoverNone,
		Scope: ScopeMachine, CrashRelease: CrashSession, MinTTL: time.Second, MaxTTL: time.Minute}
	for _, c := range []struct {
		name       string
		have, need Guarantees
		want       []string
	}{
		{"nothing needed of nothing", Guarantees{}, Guarantees{}, nil},
		{"nothing needed", have, Guarantees{}, nil},
		{"all that it has", have, have, nil},
		{"less of everything", have, Guarantees{Modes: Shared, Failover: FailoverMayDouble, Scope: ScopeProcess,
			MinTTL: 2 * time.Second, MaxTTL: time.Second}, nil},
		{"a wider scope", have, Guarantees{Scope: ScopeCluster}, []string{"scope cluster (it has machine)"}},
		{"an order", Guarantees{}, Guarantees{Order: FIFO}, []string{"order first come, first served (it has none)"}},
		{"one mode of two", have, Guarantees{Modes: Shared | Permits}, []string{"modes permits (it has exclusive, shared)"}},
		{"fencing that never ends", have, Guarantees{Fencing: FencingAlways}, []string{"fencing always (it has until it forgets)"}},
		{"no second grant", Guarantees{Failover: FailoverMayDouble}, Guarantees{Failover: FailoverNone},
			[]string{"failover none (it has may grant twice)"}},
		{"a failover", have, Guarantees{Failover: FailoverConsensus}, []string{"failover consensus (it has none)"}},
		{"release at once", have, Guarantees{CrashRelease: CrashAtOnce}, []string{"crash release at once (it has after its session)"}},
		{"yes or no", have, Guarantees{Detach: true, SeesWaiters: true}, []string{"detached claims", "showing who waits"}},
		{"a shorter TTL", have, Guarantees{MinTTL: 500 * time.Millisecond},
			[]string{"a TTL as short as 500ms (it grants 1s at least)"}},
		{"a longer TTL", have, Guarantees{MaxTTL: time.Hour}, []string{"a TTL as long as 1h0m0s (it grants 1m0s at most)"}},
		{"TTLs outside every engine's", Guarantees{}, Guarantees{MinTTL: MinTTL - 1, MaxTTL: MaxTTL + 1},
			[]string{"a TTL as short as 99.999999ms (it grants 100ms at least)", "a TTL as long as 24h0m0.000000001s (it grants 24h0m0s at most)"}},
		{"TTLs of every engine", Guarantees{}, Guarantees{MinTTL: MinTTL, MaxTTL: MaxTTL}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.have.Missing(c.need); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
