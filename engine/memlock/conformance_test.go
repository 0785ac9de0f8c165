package memlock_test

import (
	"testing"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/enginetest/broken"
	"leasehold/engine/memlock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The world without a fault is memlock itself on a fake clock, behind a wire
// that the suite can cut.
func TestConformance(t *testing.T) {
	w := broken.New(broken.Fault{})
	defer w.Close()
	enginetest.Run(t, enginetest.Harness{
		Name: "memlock", New: w.Engine, Now: w.Now, Sleep: w.Sleep,
		// A store lives and dies with its process, so starting again is
		// forgetting, and no client can be killed alone: there is no Kill.
		Restart:     w.Forget,
		Forget:      w.Forget,
		LoseReply:   w.LoseReply,
		FailPartial: w.FailPartial,
		CountKeys:   w.Count,
		// memlock has no connections, nothing foreign can be under a name, and
		// whoever shares the memory could do worse than send requests.
		CountRequests: w.Requests,
		Committed:     "../../docs/guarantees",
	})
}

func BenchmarkEngine(b *testing.B) {
	s := memlock.NewStore(nil)
	enginetest.Bench(b, enginetest.Harness{Name: "memlock", New: func(testing.TB) engine.Engine { return s.Engine() }})
}
