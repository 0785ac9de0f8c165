package zklock

import (
	"errors"
	"fmt"
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
			eventually(t, "it believes that a server serves it", func() bool {
				_, up := a.link.current()
				return !up
			})
		}
		makeAnew(t, peer(t, s), last)
		a.wire.revive()
		if got := a.join(t, exclusive("x")); got.State != engine.Waiting {
			t.Errorf("behind %d claims in a node that was made anew, a claim is %v", last+1, got.State)
		}
	}
}

// makeAnew removes the node of "x" and makes it again, with claims of others up to a number.
func makeAnew(t *testing.T, conn *zk.Conn, last int64) {
	t.Helper()
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
}

// allow sets what everybody may do at the node of "x" from now on. No watch tells of that.
func allow(t *testing.T, conn *zk.Conn, permissions int32) {
	t.Helper()
	if _, err := conn.SetACL("/x", zk.WorldACL(permissions), -1); err != nil {
		t.Fatal(err)
	}
}

// A watch tells of one change. After any change it does not tell of the end of the node. So
// a queue that its client left without a watch is listed.
func TestAVacancyNeedsAWatchThatStands(t *testing.T) {
	s := zooKeeper(t)
	a, _ := emptied(t, s)
	conn := peer(t, s)
	held := a.hold(t, exclusive("x"))
	if _, err := conn.Set("/x", []byte("x"), -1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the watch does not tell", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return !a.listens(watch{"/x", false})
	})
	a.leave1(t, held)
	v, _ := a.vacant("/x")
	makeAnew(t, conn, v.last)
	a.wait(t, exclusive("x"))
}

// A claim that leaves a queue with others in it leaves no vacancy, however often.
func TestAClaimBehindOthersLeavesNoVacancy(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	b.hold(t, exclusive("x"))
	for range 4 {
		a.leave1(t, a.wait(t, exclusive("x")))
	}
}

// A node that the servers do not let its client remove stands before the next.
func TestAClaimThatIsNotRemovedLeavesNoVacancy(t *testing.T) {
	s := zooKeeper(t)
	a, _ := emptied(t, s)
	conn := peer(t, s)
	held := a.hold(t, exclusive("x"))
	allow(t, conn, zk.PermAll&^zk.PermDelete)
	if got, err := a.Leave(within(t), []engine.Claim{held}); err == nil {
		t.Fatalf("it was removed: %v", got)
	}
	allow(t, conn, zk.PermAll)
	a.wait(t, exclusive("x"))
}

// A Join that failed leaves what is known of the queue as it was: with nobody else there the
// next needs no list, and otherwise it has a later number than the next.
func TestAJoinThatFailedLeavesItsVacancy(t *testing.T) {
	s := zooKeeper(t)
	a, _ := emptied(t, s)
	b, conn := open(t, on(s)), peer(t, s)
	fail := func() {
		t.Helper()
		allow(t, conn, zk.PermAll&^zk.PermCreate)
		if got, err := a.Join(within(t), a.lasts(exclusive("x"))); !errors.Is(err, engine.ErrRefused) {
			t.Fatalf("it was made: %v, %v", got, err)
		}
		allow(t, conn, zk.PermAll)
	}
	fail()
	a.wire.requests()
	a.leave1(t, a.hold(t, exclusive("x")))
	if sent := a.wire.requests(); sent[opList] > 0 {
		t.Errorf("after a Join that failed, one took %v", sent)
	}
	fail()
	b.hold(t, exclusive("x"))
	a.wait(t, exclusive("x"))
}

// A session remembers few vacancies, and prefers those that spare a list.
func TestVacanciesAreBounded(t *testing.T) {
	e := &claimant{Engine: &Engine{}, vacancies: map[string]*vacancy{}, watches: map[watch]*standing{}}
	left := func(queue string, sure bool) {
		c := newClaim(exclusive(queue), queue, 0, nil)
		c.Key, c.alone, c.follows = queue+"/lock-0000000007", true, sure
		e.watches[watch{queue, false}] = &standing{sure}
		e.vacate(c)
	}
	left("/sure", true)
	for i := range 3 * maxVacancies {
		left("/"+string(rune('a'+i%26))+string(rune(0x4e00+i)), false)
	}
	if len(e.vacancies) > maxVacancies || e.vacancies["/sure"] == nil || e.vacancies["/sure"].last != 7 {
		t.Errorf("%d are kept, and of the certain one %+v", len(e.vacancies), e.vacancies["/sure"])
	}
	clear(e.vacancies)
	for i := range maxVacancies {
		left(fmt.Sprint("/sure ", i), true)
	}
	left("/one more", false)
	left("/sure 0", true) // which has its place
	if len(e.vacancies) != maxVacancies || e.vacancies["/one more"] != nil {
		t.Errorf("among certain ones, %d are kept", len(e.vacancies))
	}
}
