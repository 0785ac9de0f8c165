//go:build unix

package redisson

import (
	"errors"
	"strconv"
	"syscall"
	"testing"
	"time"

	"leasehold"
	it "leasehold/lab/interop/internal/interoptest"
)

// The schedules of docs/from-your-lock.md in which Redisson's locks fail. Beside those that
// stop or kill what holds, the same is asked of ours.
func TestTheSchedulesOfThePage(t *testing.T) {
	t.Parallel()
	r := newRig(t, Current)
	t.Run("the watchdog of a paused program", func(t *testing.T) {
		name := it.NameOf(t)
		a, b := r.brief.Thread(1), r.java.Thread(1)
		it.Does(t, a, "lock", Lock, name)
		if err := syscall.Kill(r.brief.PID(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(r.brief.PID(), syscall.SIGCONT)
		it.Does(t, b, "lock", Lock, name) // and A believes to hold
		if err := syscall.Kill(r.brief.PID(), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if e := it.Throws(t, a, "unlock", Lock, name); e != "IllegalMonitorStateException" {
			t.Errorf("A's unlock: %s", e)
		}
		it.Does(t, b, "unlock", Lock, name)
	})
	t.Run("a reader passes a waiting writer", func(t *testing.T) {
		name := it.NameOf(t)
		a, w, b := r.java.Thread(1), r.brief.Thread(2), r.java.Thread(3)
		it.Does(t, a, "lock", Read, name)
		waits := w.Go("lock", Write, name)
		r.listening(t, channelOfReadWrite(name), 1)
		if got := it.Does(t, b, "tryLock", Read, name, "0"); got != "true" {
			t.Errorf("Java's second reader: %s", got)
		}
		unanswered(t, waits)
		it.Does(t, a, "unlock", Read, name)
		unanswered(t, waits)
		it.Does(t, b, "unlock", Read, name)
		it.Done(t, waits)
		it.Does(t, w, "unlock", Write, name)

		ours, third := client(t, "redis://"+r.server.Addr, nil), client(t, "redis://"+r.server.Addr, nil)
		reader := it.Got(t, it.RLock(t, ours, name))
		writer := it.Lock(t, client(t, "redis://"+r.server.Addr, nil), name)
		it.Until(t, "the writer waits", func() bool {
			q, err := ours.Queue(it.Within(t), name)
			return err == nil && len(q.Claims) == 2
		})
		if _, err := third.TryRLock(it.Within(t), name); !errors.Is(err, leasehold.ErrHeld) {
			t.Errorf("our second reader: %v, want ErrHeld", err)
		}
		it.Unlocked(t, reader)
		it.Unlocked(t, it.Got(t, writer))
	})
	t.Run("a dead waiter of a fair lock", func(t *testing.T) {
		name := it.NameOf(t)
		a, b := r.java.Thread(1), r.brief.Thread(1)
		dead := started(t, r.program, Options{Addrs: []string{r.server.Addr}})
		it.Does(t, a, "lock", Fair, name)
		dead.Thread(1).Go("lock", Fair, name)
		it.Until(t, "it waits", func() bool { return r.do(t, "LLEN", "redisson_lock_queue:{"+name+"}") == int64(1) })
		places := r.do(t, "ZRANGE", "redisson_lock_timeout:{"+name+"}", "0", "-1", "WITHSCORES").([]any)
		until, err := strconv.ParseInt(places[1].(string), 10, 64)
		if left := time.Until(time.UnixMilli(until)); err != nil || left < 5*time.Minute {
			t.Errorf("the place of a waiter lasts %v, %v: the page says five minutes", left, err)
		}
		dead.Kill()
		it.Does(t, a, "unlock", Fair, name)
		if got := it.Does(t, b, "tryLock", Fair, name, "2000"); got != "false" {
			t.Errorf("the next one got %s: it was to wait for the dead", got)
		}
	})
}

// A master that restarts empty votes at once: two have a majority.
func TestRedLockTakesARestartedMaster(t *testing.T) {
	t.Parallel()
	r := newRedRig(t, Current)
	name := it.NameOf(t)
	r.masters[3].Kill()
	r.masters[4].Kill()
	it.Does(t, r.java.Thread(1), "lock", Red, name)
	for _, m := range r.masters[2:] {
		if err := m.Restart(true); err != nil {
			t.Fatal(err)
		}
	}
	it.Does(t, r.brief.Thread(1), "lock", Red, name) // A was told nothing
	if n := r.entered(t, name); n != 5 {
		t.Errorf("%d masters have a holder", n)
	}
	for i, m := range r.masters {
		who, err := m.Do("HKEYS", name)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("master %d: %v", i+1, who)
	}
}

// A key of a MultiLock that is gone is another's: its holder is not told.
func TestMultiLockIsNotToldOfALoss(t *testing.T) {
	t.Parallel()
	r, _ := newRedRigOfOne(t, Current)
	name := it.NameOf(t)
	it.Does(t, r.java.Thread(1), "lock", Multi, name)
	if _, err := r.masters[0].Do("DEL", name); err != nil {
		t.Fatal(err)
	}
	other := started(t, r.program, Options{Addrs: []string{r.masters[0].Addr}})
	it.Does(t, other.Thread(1), "lock", Lock, name)
	if n := r.entered(t, name); n != len(r.masters) {
		t.Errorf("%d masters have a holder", n)
	}
	it.Does(t, other.Thread(1), "unlock", Lock, name)
}

func unanswered(t *testing.T, c <-chan Answer) {
	t.Helper()
	select {
	case got := <-c:
		t.Errorf("it has an answer: %+v", got)
	default:
	}
}
