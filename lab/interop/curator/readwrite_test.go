package curator

import (
	"testing"

	"leasehold"
	it "leasehold/lab/interop/internal/interoptest"
)

func readersAndWriters(t *testing.T, r *rig) {
	c, d := r.client(t, readWrite), r.client(t, readWrite)
	a, b := r.java.Thread(1), r.other.Thread(1)

	t.Run("a writer of ours waits for readers of both, and readers for it", func(t *testing.T) {
		name := it.NameOf(t)
		path := pathOf(name)
		it.Does(t, a, "acquire", Read, path)
		reads := it.Got(t, it.RLock(t, c, name))
		r.lined(t, name, holds, holds)
		writes := it.Lock(t, d, name)
		r.lined(t, name, holds, holds, 1)
		late := b.Go("acquire", Read, path)
		r.lined(t, name, holds, holds, 1, 2)

		it.Unlocked(t, reads)
		r.lined(t, name, holds, 0, 1)
		unanswered(t, writes)
		it.Does(t, a, "release", Read, path)
		w := it.Got(t, writes)
		r.lined(t, name, holds, 0)
		unanswered(t, late)
		it.Unlocked(t, w)
		it.Done(t, late)
		it.Unlocked(t, it.Got(t, it.RLock(t, c, name)))
		it.Refused(t, c, name, leasehold.NoWait)
		it.Does(t, b, "release", Read, path)
		r.lined(t, name)
	})
	t.Run("a writer of Java's waits for readers of both, and readers for it", func(t *testing.T) {
		name := it.NameOf(t)
		path := pathOf(name)
		reads := it.Got(t, it.RLock(t, c, name))
		it.Does(t, a, "acquire", Read, path)
		writes := b.Go("acquire", Write, path)
		r.lined(t, name, holds, holds, 1)
		// Two readers of both sides behind it wait for the writer alone.
		ours := it.RLock(t, d, name)
		java := a.Go("acquire", Read, path) // re-entry passes the writer, as it must
		it.Done(t, java)
		it.Does(t, a, "release", Read, path)
		r.lined(t, name, holds, holds, 1, 2)
		late := r.java.Thread(2).Go("acquire", Read, path)
		r.lined(t, name, holds, holds, 1, 2, 2)

		it.Does(t, a, "release", Read, path)
		r.lined(t, name, holds, 0, 1, 1)
		unanswered(t, writes, late)
		it.Unlocked(t, reads)
		it.Done(t, writes)
		r.lined(t, name, holds, 0, 0)
		unanswered(t, ours)
		it.Does(t, b, "release", Write, path)
		l := it.Got(t, ours)
		it.Done(t, late)
		r.lined(t, name, holds, holds)
		it.Unlocked(t, l)
		it.Does(t, r.java.Thread(2), "release", Read, path)
	})
}

// Who writes in Java and then reads has a second node of the same number. When it
// writes no more it still reads.
func readingUnderWrite(t *testing.T, r *rig) {
	name := it.NameOf(t)
	path := pathOf(name)
	a := r.java.Thread(1)
	it.Does(t, a, "acquire", Write, path)
	reads := it.RLock(t, r.client(t, readWrite), name)
	r.lined(t, name, holds, 0)
	writes := it.Lock(t, r.client(t, readWrite), name)
	r.lined(t, name, holds, 0, 1)
	it.Does(t, a, "acquire", Read, path)
	r.lined(t, name, holds, holds, 0, 2)
	it.Does(t, a, "release", Write, path)
	l := it.Got(t, reads)
	r.lined(t, name, holds, holds, 1)
	it.Unlocked(t, l)
	r.lined(t, name, holds, 0)
	unanswered(t, writes)
	it.Does(t, a, "release", Read, path)
	it.Unlocked(t, it.Got(t, writes))
}
