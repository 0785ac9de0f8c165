package curator

import (
	"testing"

	it "leasehold/lab/interop/internal/interoptest"
)

// The schedule of docs/from-your-lock.md in which Curator's lock fails: its holder does not
// learn that its node is gone. TestShared has the same with ours as the holder.
func TestAHolderWhoseNodeIsGoneIsNotTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := it.NameOf(t)
	a, b := r.java.Thread(1), r.other.Thread(1)
	it.Does(t, a, "acquire", Mutex, pathOf(name))
	waits := b.Go("acquire", Mutex, pathOf(name))
	r.lined(t, name, holds, 0)
	r.remove(t, name)
	it.Done(t, waits)
	if got := it.Does(t, a, "isAcquiredInThisProcess", Mutex, pathOf(name)); got != "true" {
		t.Errorf("A says %s while B holds", got)
	}
}
