package demo

import (
	"strings"
	"time"

	"leasehold"
)

// item is the name that the processes want.
const item = "stock:42"

// All is every schedule, in the order of the articles.
func All() []Demo {
	return []Demo{
		{
			Name: "setnx", Short: "SETNX without expiry: its holder is killed", Anchor: "setnx",
			scheme: "setnx", how: "SETNX takes the lock, DEL gives it back", on: redis, lanes: letters(2), play: holderKilled,
		},
		{
			Name: "expire", Short: "SET NX PX: the work takes longer than the expiry", Anchor: "set-nx-px-with-compare-and-delete",
			scheme: "setpx", how: "SET NX PX 5000, released by a script that compares the value", on: redis, lanes: letters(2), play: longWork,
		},
		{
			Name: "del", Short: "Released by DEL: a late holder lets a third one in", Anchor: "set-nx-px-with-del",
			scheme: "setpx-del", how: "SET NX PX 2000, by B PX 60000, released by DEL", on: redis, lanes: letters(3), play: lateRelease,
		},
		{
			Name: "getset", Short: "GETSET with time stamps: a client's clock is ahead", Anchor: "getset-with-time-stamps",
			scheme: "getset", how: "the value is when the lock ends; GETSET takes it over then. The clock of B is a minute ahead",
			on: redis, lanes: letters(2), play: clockAhead,
		},
		{
			Name: "herd", Short: "One ephemeral node in ZooKeeper: each release wakes every waiter", Anchor: "zookeeper-one-ephemeral-node",
			scheme: "zookeeper-one", how: "one ephemeral node, which every waiter watches", on: zookeeper, lanes: letters(herdSize), play: herd,
		},
		{
			Name: "zk-tutorial", Short: "Sequential nodes: the predecessor goes between the list and the watch", Anchor: "zookeeper-watching-the-predecessor",
			scheme: "zookeeper-tutorial", how: "sequential ephemeral nodes; each waiter watches the one before it", on: zookeeper, lanes: letters(3),
			play: predecessorGoes,
		},
		{
			Name: "redlock-restart", Short: "Redlock on five masters: one of them restarts empty", Anchor: "redlock-by-hand",
			scheme: "redlock", how: "SET NX PX on five masters, and a majority holds", on: private, lanes: letters(2), play: masterRestarts,
		},
		{
			Name: "failover", Short: "Redis with a replica that lags: it is promoted", Anchor: "redis-with-a-failover",
			scheme: "setpx", how: "SET NX PX 60000 on a primary that Sentinel watches", on: private, lanes: letters(2), play: failover,
		},
		{
			Name: "stale-writer", Short: "A paused holder goes on and overwrites", Anchor: "a-paused-holder",
			scheme: "setpx", how: "SET NX PX 2000; the holder reads, is paused, and writes", on: redis, lanes: letters(2), play: staleWriter,
		},
		{
			Name: "deadlock", Short: "A then B against B then A", Anchor: "a-then-b-against-b-then-a",
			scheme: "setpx", how: "SET NX PX 60000, two names", on: redis, lanes: letters(2), play: deadlock,
		},
	}
}

// expiry is that of the hand-written locks, and the TTL of ours.
const expiry = 2 * time.Second

// holderKilled: A dies with the lock. B waits for twice as long as an expiry would take.
func holderKilled(s *stage) finding {
	a, b := s.actor("A", expiry), s.actor("B", expiry)
	a.must(a.lock(item, patience))
	a.kill()
	if b.lock(item, 2*expiry) {
		b.unlock(item)
		return finding{seen: "B holds when the TTL of A has passed"}
	}
	left := int64(-1)
	if !s.ours() && s.err == nil {
		var err error
		left, err = s.on.pttl(s.ctx, s.on.prefix+item)
		s.fail(err)
		b.say(idle, "Redis: PTTL is %d", left)
	}
	return finding{left == -1, "the key has no expiry, and nobody ever gets the lock"}
}

// longWork: A works for longer than its lock lasts, and nothing else goes wrong.
func longWork(s *stage) finding {
	const expiry = 5 * time.Second // a busy machine renews in time
	a, b := s.actor("A", expiry), s.actor("B", expiry)
	a.must(a.lock(item, patience))
	b.ask(item, patience)
	if b.got(2*expiry) && a.believes(item) {
		a.unlock(item)
		b.unlock(item)
		return finding{true, "two held while A worked, and A was told nothing"}
	}
	a.say(holds, "A has worked for twice its TTL, and unlocks")
	a.unlock(item)
	b.must(b.got(patience))
	b.unlock(item)
	return finding{seen: "A was renewed, and B held after its unlock"}
}

// lateRelease: A is stopped until its lock has ended and B holds. Then it gives back what
// it no longer has.
func lateRelease(s *stage) finding {
	const long = time.Minute // C does not get what B has by its end
	a, b, c := s.actor("A", expiry), s.actor("B", long), s.actor("C", expiry)
	a.must(a.lock(item, patience))
	a.pause()
	b.must(b.lock(item, patience))
	a.resume()
	a.unlock(item)
	c.ask(item, 3*patience) // by hand it has patience to hold wrongly, and time is left after that
	if c.got(s.wrongly()) && b.believes(item) {
		return finding{true, "the DEL of A removed the key of B, and C held beside B"}
	}
	b.unlock(item)
	c.must(c.got(patience))
	c.unlock(item)
	return finding{seen: "the Unlock of A said ErrLost and released nothing, and C held after B"}
}

// clockAhead: B thinks that the lock of A has ended.
func clockAhead(s *stage) finding {
	const long = 5 * time.Second
	a := s.actor("A", long)
	b := s.start("B", order{Server: s.on.url(s.ours()), Expiry: long, Ahead: time.Minute})
	a.must(a.lock(item, patience))
	b.ask(item, patience)
	if b.got(expiry) && a.believes(item) {
		return finding{true, "B took the lock from A, which was alive, by B's clock"}
	}
	a.unlock(item)
	b.must(b.got(patience))
	b.unlock(item)
	return finding{seen: "no client's clock counts, and B held after A"}
}

// staleWriter: A reads, is stopped until B has read and written, and writes.
func staleWriter(s *stage) finding {
	s.value = "100"
	a, b := s.actor("A", expiry), s.actor("B", expiry)
	a.must(a.lock(item, patience))
	a.say(holds, "A reads %s, and is about to write 95", s.value)
	a.pause()
	b.must(b.lock(item, patience))
	b.say(holds, "B reads %s", s.value)
	b.write(item, "90")
	b.unlock(item)
	a.resume()
	a.write(item, "95")
	a.believes(item)
	if s.value == "95" {
		return finding{true, "A overwrote what B had written"}
	}
	return finding{seen: "the resource refused the write of A, whose token is lower, and A was told that its lease is lost"}
}

// deadlock: each holds what the other one wants.
func deadlock(s *stage) finding {
	const long, waiting = time.Minute, 4 * time.Second
	a, b := s.actor("A", long), s.actor("B", long)
	s.line.apart = true
	a.must(a.lock("a", patience))
	b.must(b.lock("b", patience))
	a.ask("b", waiting)
	b.ask("a", waiting)
	first, said := s.next(waiting + patience)
	if s.err != nil || first == nil {
		return finding{}
	}
	other, held := a, "b"
	if first == a {
		other, held = b, "a"
	}
	if s.ours() && strings.Contains(said, leasehold.ErrDeadlock.Error()) {
		first.say(holds, "%s gets: %s", first.name, brief(strings.TrimPrefix(said, no+" ")))
		first.unlock(held)
		if other.got(patience) {
			return finding{seen: "one of them got ErrDeadlock, unlocked, and the other one went on"}
		}
		return finding{true, other.name + " did not get it all the same"}
	}
	first.say(holds, "%s %s", first.name, strings.TrimPrefix(said, no+" "))
	said = other.await(patience)
	other.say(holds, "%s %s", other.name, strings.TrimPrefix(said, no+" "))
	return finding{true, "both waited for each other until their time was up"}
}
