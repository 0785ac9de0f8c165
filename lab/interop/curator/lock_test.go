package curator

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold"
	"leasehold/engine"
	it "leasehold/lab/interop/internal/interoptest"
)

func TestShared(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, c := range []struct {
		name string
		test func(*testing.T, *rig)
	}{
		{"somebody is let past another", func(t *testing.T, r *rig) { inLine(t, r, mutexes, Mutex) }},
		{"somebody is let past another by hand", func(t *testing.T, r *rig) { inLine(t, r, tutorials, Tutorial) }},
		{"a release is told to nobody", func(t *testing.T, r *rig) { releasesAreNotified(t, r, mutexes, Mutex) }},
		{"a release is told to nobody by hand", func(t *testing.T, r *rig) { releasesAreNotified(t, r, tutorials, Tutorial) }},
		{"one release ends a re-entered hold", reentryCounts},
		{"who gave up waiting still waits", func(t *testing.T, r *rig) { givingUp(t, r, mutexes, Mutex) }},
		{"who gave up waiting still waits by hand", func(t *testing.T, r *rig) { givingUp(t, r, tutorials, Tutorial) }},
		{"an interrupted waiter still waits", interrupted},
		{"a stranger releases", strangersCannotRelease},
		{"a deleted node still holds", deleted},
		{"a revocation is told to nobody", revoked},
		{"the other side is not seen", seen},
		{"a semaphore passes for a mutex", semaphores},
		{"shared claims of ours pass a mutex", sharedBesideMutex},
		{"readers and writers meet", readersAndWriters},
		{"reading under one's own write goes unseen", readingUnderWrite},
		{"an increment is lost", func(t *testing.T, r *rig) { counter(t, r, mutexes, Mutex) }},
		{"an increment is lost among writers", func(t *testing.T, r *rig) { counter(t, r, readWrite, Write) }},
		{"an increment is lost by hand", func(t *testing.T, r *rig) { counter(t, r, tutorials, Tutorial) }},
		{"a lock that was copied waits", printed},
		{"the dead hold for ever", killed},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, r) })
	}
}

// Ours, Java, ours, Java behind each other: each waits for the one before it alone.
func inLine(t *testing.T, r *rig, layout, kind string) {
	name := it.NameOf(t)
	path := pathOf(name)
	a, b := r.java.Thread(1), r.other.Thread(1)
	first := it.Got(t, it.Lock(t, r.client(t, layout), name))
	r.lined(t, name, holds)
	second := a.Go("acquire", kind, path)
	r.lined(t, name, holds, 0)
	third := it.Lock(t, r.client(t, layout), name)
	r.lined(t, name, holds, 0, 1)
	fourth := b.Go("acquire", kind, path)
	r.lined(t, name, holds, 0, 1, 2)

	unanswered(t, second, fourth)
	it.Unlocked(t, first)
	it.Done(t, second)
	r.lined(t, name, holds, 0, 1)
	unanswered(t, fourth)
	unanswered(t, third)
	it.Does(t, a, "release", kind, path)
	lease := it.Got(t, third)
	r.lined(t, name, holds, 0)
	unanswered(t, fourth)
	it.Unlocked(t, lease)
	it.Done(t, fourth)
	it.Refused(t, r.client(t, layout), name, 0)
	it.Does(t, b, "release", kind, path)
	r.lined(t, name)
}

// What tutorials print lets two hold, among its like and beside us, and what docs/migrating.md
// says of it is so: it enters when the one before it goes before it is watched. Who shares
// a line with it is let in by its own turn alone. (The lock as it was mended is Tutorial.)
func printed(t *testing.T, r *rig) {
	// enters has one of them wait behind a node of somebody who then gives up.
	enters := func(t *testing.T, path string) {
		t.Helper()
		between, err := r.admin.Create(path+"/client", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		waits := r.other.Thread(1).Go("acquire", Copied, path)
		it.Does(t, r.other.Thread(2), "listed", Copied, path)
		if err := r.admin.Delete(between, -1); err != nil {
			t.Fatal(err)
		}
		it.Does(t, r.other.Thread(2), "watch", Copied, path)
		it.Done(t, waits) // it is in, whoever holds
		if got := it.Does(t, r.other.Thread(2), "isAcquiredInThisProcess", Copied, path); got != "true" {
			t.Errorf("it believes that it holds: %s", got)
		}
	}
	t.Run("among its like", func(t *testing.T) {
		path := pathOf(it.NameOf(t))
		it.Does(t, r.java.Thread(1), "acquire", Copied, path)
		enters(t, path)
		if got := it.Does(t, r.java.Thread(2), "isAcquiredInThisProcess", Copied, path); got != "true" {
			t.Errorf("the holder holds: %s", got)
		}
		it.Does(t, r.java.Thread(1), "release", Copied, path)
		it.Does(t, r.other.Thread(1), "release", Copied, path)
	})
	t.Run("beside us", func(t *testing.T) {
		name := it.NameOf(t)
		path := pathOf(name)
		first := it.Got(t, it.Lock(t, r.client(t, tutorials), name))
		enters(t, path)
		next := it.Lock(t, r.client(t, tutorials), name)
		r.lined(t, name, holds, holds, 1) // the second of which does not hold
		if !first.Valid() {
			t.Error("our lease ended")
		}
		it.Unlocked(t, first)
		r.lined(t, name, holds, 0)
		unanswered(t, next)
		it.Does(t, r.other.Thread(1), "release", Copied, path)
		it.Unlocked(t, it.Got(t, next))
	})
}

func reentryCounts(t *testing.T, r *rig) {
	c := r.client(t, mutexes)
	a, b := r.java.Thread(1), r.other.Thread(1)
	t.Run("Java's", func(t *testing.T) {
		name := it.NameOf(t)
		path := pathOf(name)
		it.Does(t, a, "acquire", Mutex, path)
		it.Does(t, a, "acquire", Mutex, path)
		r.lined(t, name, holds)
		waits := it.Lock(t, c, name)
		r.lined(t, name, holds, 0)
		it.Does(t, a, "release", Mutex, path)
		r.lined(t, name, holds, 0)
		unanswered(t, waits)
		it.Does(t, a, "release", Mutex, path)
		it.Unlocked(t, it.Got(t, waits))
	})
	t.Run("ours", func(t *testing.T) {
		name := it.NameOf(t)
		path := pathOf(name)
		again := c.With(leasehold.LockOptions{Reentrant: true})
		outer := it.Got(t, it.Lock(t, again, name))
		inner, err := again.Lock(outer.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		waits := b.Go("acquire", Mutex, path)
		r.lined(t, name, holds, 0)
		it.Unlocked(t, inner)
		r.lined(t, name, holds, 0)
		unanswered(t, waits)
		it.Unlocked(t, outer)
		it.Done(t, waits)
		it.Does(t, b, "release", Mutex, path)
	})
}

func givingUp(t *testing.T, r *rig, layout, kind string) {
	const wait = 300 * time.Millisecond
	c := r.client(t, layout)
	a := r.java.Thread(1)
	t.Run("Java", func(t *testing.T) {
		name := it.NameOf(t)
		l := it.Got(t, it.Lock(t, c, name))
		answer, err := a.Do(it.Within(t), "acquire", kind, pathOf(name), "300")
		if err != nil || answer.Value != "false" {
			t.Fatalf("%+v %v", answer, err)
		}
		if took := time.Duration(answer.Ended - answer.Began); took < wait {
			t.Errorf("Java gave up after %v", took)
		}
		r.remain(t, name, 1)
		it.Unlocked(t, l)
		it.Does(t, a, "acquire", kind, pathOf(name))
		it.Does(t, a, "release", kind, pathOf(name))
	})
	t.Run("ours", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "acquire", kind, pathOf(name))
		it.Refused(t, c, name, 0)
		r.remain(t, name, 1)
		it.Refused(t, c, name, wait)
		r.remain(t, name, 1)
		it.Does(t, a, "release", kind, pathOf(name))
		r.remain(t, name, 0)
	})
}

func interrupted(t *testing.T, r *rig) {
	c := r.client(t, mutexes)
	a := r.java.Thread(1)
	name := it.NameOf(t)
	l := it.Got(t, it.Lock(t, c, name))
	waits := a.Go("acquire", Mutex, pathOf(name))
	r.lined(t, name, holds, 0)
	it.Does(t, a, "interrupt")
	var e *Exception
	if got := it.Answered(t, waits); !errors.As(got.Err, &e) || e.Class != "InterruptedException" {
		t.Errorf("the interrupted waiter: %+v", got)
	}
	r.remain(t, name, 1)
	it.Unlocked(t, l)
	it.Does(t, a, "acquire", Mutex, pathOf(name))
	it.Does(t, a, "release", Mutex, pathOf(name))
}

func strangersCannotRelease(t *testing.T, r *rig) {
	c := r.client(t, mutexes)
	a, b := r.java.Thread(1), r.java.Thread(2)
	refused := func(t *testing.T, th *Thread, name string) {
		t.Helper()
		if e := it.Throws(t, th, "release", Mutex, pathOf(name)); e != "IllegalMonitorStateException" {
			t.Errorf("release: %s", e)
		}
	}
	t.Run("Java what we hold", func(t *testing.T) {
		name := it.NameOf(t)
		l := it.Got(t, it.Lock(t, c, name))
		before := r.lined(t, name, holds)
		refused(t, a, name)
		if now := r.lined(t, name, holds); now[0].name != before[0].name || !l.Valid() {
			t.Error("the lock was changed")
		}
		it.Unlocked(t, l)
	})
	t.Run("a thread what another holds", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "acquire", Mutex, pathOf(name))
		refused(t, b, name)
		it.Refused(t, c, name, 0)
		it.Does(t, a, "release", Mutex, pathOf(name))
	})
	t.Run("we what Java took by force", func(t *testing.T) {
		name := it.NameOf(t)
		l := it.Got(t, it.Lock(t, c, name))
		r.remove(t, name)
		it.Does(t, a, "acquire", Mutex, pathOf(name))
		it.Lost(t, l)
		r.lined(t, name, holds)
		it.Refused(t, c, name, 0)
		it.Does(t, a, "release", Mutex, pathOf(name))
	})
	t.Run("Java what we took by force", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "acquire", Mutex, pathOf(name))
		line, err := c.Queue(it.Within(t), name)
		if err != nil || len(line.Claims) != 1 {
			t.Fatalf("%+v %v", line, err)
		}
		if err := c.RevokeNow(it.Within(t), name, line.Claims[0].Ticket); err != nil {
			t.Fatal(err)
		}
		l := it.Got(t, it.Lock(t, c, name))
		if got := it.Does(t, a, "isAcquiredInThisProcess", Mutex, pathOf(name)); got != "true" {
			t.Errorf("Curator tells a holder whose node was removed: %s", got)
		}
		it.Does(t, a, "release", Mutex, pathOf(name))
		r.lined(t, name, holds)
		if !l.Valid() {
			t.Error("Java's release touched our lock")
		}
		it.Unlocked(t, l)
	})
}

// remove deletes the first node of a line, as an operator would.
func (r *rig) remove(t *testing.T, name string) {
	t.Helper()
	if err := r.admin.Delete(pathOf(name)+"/"+r.line(t, name)[0].name, -1); err != nil {
		t.Fatal(err)
	}
}

func deleted(t *testing.T, r *rig) {
	name := it.NameOf(t)
	l := it.Got(t, it.Lock(t, r.client(t, mutexes), name))
	waits := r.java.Thread(1).Go("acquire", Mutex, pathOf(name))
	r.lined(t, name, holds, 0)
	r.remove(t, name)
	it.Lost(t, l)
	it.Done(t, waits)
	r.lined(t, name, holds)
	it.Does(t, r.java.Thread(1), "release", Mutex, pathOf(name))
}

func revoked(t *testing.T, r *rig) {
	c := r.client(t, mutexes)
	a, b := r.java.Thread(1), r.java.Thread(2)
	t.Run("Java, asked by us", func(t *testing.T) {
		name := it.NameOf(t)
		it.Does(t, a, "makeRevocable", Mutex, pathOf(name))
		it.Does(t, a, "acquire", Mutex, pathOf(name))
		waits := it.Lock(t, c, name)
		r.lined(t, name, holds, 0)
		line, err := c.Queue(it.Within(t), name)
		if err != nil || len(line.Claims) != 2 {
			t.Fatalf("%+v %v", line, err)
		}
		if err := c.Revoke(it.Within(t), name, line.Claims[0].Ticket); err != nil {
			t.Fatal(err)
		}
		it.Does(t, b, "revoked", Mutex, pathOf(name))
		unanswered(t, waits)
		it.Does(t, a, "release", Mutex, pathOf(name))
		it.Unlocked(t, it.Got(t, waits))
	})
	t.Run("we, asked by Java", func(t *testing.T) {
		name := it.NameOf(t)
		l := it.Got(t, it.Lock(t, c, name))
		node := r.lined(t, name, holds)[0]
		waits := a.Go("acquire", Mutex, pathOf(name))
		r.lined(t, name, holds, 0)
		it.Does(t, b, "attemptRevoke", Mutex, pathOf(name), pathOf(name)+"/"+node.name)
		it.Lost(t, l)
		it.Done(t, waits)
		it.Does(t, a, "release", Mutex, pathOf(name))
	})
}

// Each side sees who is in the queue, in order.
func seen(t *testing.T, r *rig) {
	name := it.NameOf(t)
	a := r.java.Thread(1)
	c := it.Client(t, r.engine(t, mutexes), &leasehold.Options{Label: "of ours"})
	it.Does(t, a, "acquire", Mutex, pathOf(name))
	waits := it.Lock(t, c, name)
	var want []string
	for _, n := range r.lined(t, name, holds, 0) {
		want = append(want, pathOf(name)+"/"+n.name)
	}
	if got := it.Does(t, a, "getParticipantNodes", Mutex, pathOf(name)); got != strings.Join(want, ",") {
		t.Errorf("Java sees %s instead of %v", got, want)
	}
	line, err := c.Queue(it.Within(t), name)
	if err != nil || len(line.Claims) != 2 {
		t.Fatalf("%+v %v", line, err)
	}
	if first := line.Claims[0]; first.State != engine.Held || !first.Contended || !strings.Contains(first.Owner.Label, "another program") {
		t.Errorf("Java's hold is shown as %+v", first)
	}
	if second := line.Claims[1]; second.State != engine.Waiting || second.Owner.Label != "of ours" {
		t.Errorf("our claim is shown as %+v", second)
	}
	it.Does(t, a, "release", Mutex, pathOf(name))
	it.Unlocked(t, it.Got(t, waits))
}

// A semaphore of Curator's is in other nodes, and never meets a mutex: on one path
// both would hold. Nothing of it is touched.
func semaphores(t *testing.T, r *rig) {
	name := it.NameOf(t)
	a := r.java.Thread(1)
	it.Does(t, a, "acquire", Semaphore, pathOf(name))
	before, _, err := r.admin.Children(pathOf(name))
	if err != nil {
		t.Fatal(err)
	}
	l, err := r.client(t, mutexes).Lock(it.Within(t), name)
	if err == nil {
		l.Unlock()
		t.Error("we hold, and a semaphore of Java's does")
	} else if !errors.Is(err, engine.ErrRefused) {
		t.Errorf("%v instead of a refusal", err)
	}
	if now, _, err := r.admin.Children(pathOf(name)); err != nil || len(now) != len(before) {
		t.Errorf("%v was %v: %v", now, before, err)
	}
	it.Does(t, a, "release", Semaphore, pathOf(name))
}

// Our readers hold together, and to a mutex each of them is one that is before it.
func sharedBesideMutex(t *testing.T, r *rig) {
	name := it.NameOf(t)
	a := r.java.Thread(1)
	one := it.Got(t, it.RLock(t, r.client(t, mutexes), name))
	two := it.Got(t, it.RLock(t, r.client(t, mutexes), name))
	java := a.Go("acquire", Mutex, pathOf(name))
	it.Until(t, "Java waits for the second", func() bool {
		line := r.line(t, name)
		return len(line) == 3 && len(line[1].watchers) == 2
	})
	behind := it.RLock(t, r.client(t, mutexes), name)
	it.Unlocked(t, two)
	it.Until(t, "Java waits for the first", func() bool {
		line := r.line(t, name)
		return len(line) == 3 && len(line[0].watchers) == 2
	})
	unanswered(t, java)
	unanswered(t, behind)
	it.Unlocked(t, one)
	it.Done(t, java)
	unanswered(t, behind)
	it.Does(t, a, "release", Mutex, pathOf(name))
	it.Unlocked(t, it.Got(t, behind))
}
