package zklock

import (
	"testing"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// emptied is a client that knows of "x" that it left it empty, and the number of its last
// node there.
func emptied(t *testing.T, s *servers.ZooKeeperServer) (a client, last int64) {
	t.Helper()
	a = open(t, on(s))
	for range 3 {
		a.leave1(t, a.hold(t, exclusive("x")))
	}
	v, sure := a.vacant("/x")
	if !sure {
		t.Fatalf("after three claims nothing is known of their queue: %+v", v)
	}
	return a, v.last
}

func TestALoneClaimIsFollowedWithoutAList(t *testing.T) {
	a, _ := emptied(t, zooKeeper(t))
	for _, r := range []engine.Request{exclusive("x"), reader("x"), want("x", 2, 5)} {
		a.wire.requests()
		a.leave1(t, a.hold(t, r))
		if sent := a.wire.requests(); sent[opMulti] != 1 || sent[opDelete] != 1 || len(sent) != 2 {
			t.Errorf("a claim in a queue that its client left empty, and its Leave, took %v", sent)
		}
	}
}

func TestAQueueIsListedIfAnotherClientWasThere(t *testing.T) {
	s := zooKeeper(t)
	a, last := emptied(t, s)
	b := open(t, on(s))
	b.leave1(t, b.hold(t, exclusive("x")))
	a.wire.requests()
	a.leave1(t, a.hold(t, exclusive("x")))
	if n := a.wire.requests()[opList]; n != 1 {
		t.Errorf("%d lists of a queue in which another claim was made", n)
	}
	if v, sure := a.vacant("/x"); sure || v == nil || v.last != last+2 {
		t.Errorf("another client uses the name, and the next claim would be made without a list: %+v", v)
	}
	a.leave1(t, a.hold(t, exclusive("x")))
	held := b.hold(t, exclusive("x"))
	a.wait(t, exclusive("x"))
	b.leave1(t, held)
}

// A node of the name that was removed and made anew counts from zero: its next number may be
// the one that a client waits for, with others before it.
func TestAVacancyEndsWithTheNodeOfTheName(t *testing.T) {
	for _, away := range []bool{false, true} {
		s := zooKeeper(t)
		a, last := emptied(t, s)
		if away {
			a.wire.kill()
		}
		conn := peer(t, s)
		if err := conn.Delete("/x", -1); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Create("/x", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		for range last + 1 {
			if _, err := conn.Create("/x/lock-", nil, zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
		}
		a.wire.revive()
		if got := a.join(t, exclusive("x")); got.State != engine.Waiting {
			t.Errorf("behind %d claims in a node that was made anew, a claim is %v", last+1, got.State)
		}
	}
}

// A session remembers few vacancies, and prefers those that spare a list.
func TestVacanciesAreBounded(t *testing.T) {
	e := &claimant{Engine: &Engine{}, vacancies: map[string]*vacancy{}, watches: map[watch]bool{}}
	left := func(queue string, sure bool) {
		c := newClaim(exclusive(queue), queue, 0, nil)
		c.Key, c.alone, c.follows = queue+"/lock-0000000007", true, sure
		e.watches[watch{queue, false}] = sure
		e.vacate(c)
	}
	left("/sure", true)
	for i := range 3 * maxVacancies {
		left("/"+string(rune('a'+i%26))+string(rune(0x4e00+i)), false)
	}
	if len(e.vacancies) > maxVacancies || e.vacancies["/sure"] == nil || e.vacancies["/sure"].last != 7 {
		t.Errorf("%d are kept, and of the certain one %+v", len(e.vacancies), e.vacancies["/sure"])
	}
}
