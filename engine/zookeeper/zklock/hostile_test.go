package zklock

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/engine/zookeeper/internal/nodes"
)

// What others put below our nodes is data: the answer is an error in words, or a queue
// that shows it, and other names go on.

func FuzzData(f *testing.F) {
	for _, data := range [][]byte{nil, {0}, []byte("{"), []byte("null"), []byte("__REVOKE__"), []byte(`{"claim":"x"}`), []byte(`{"claim":"x","evicted":true}`),
		[]byte(`{"claim":1}`), []byte(`{"claim":"x","owner":null}`), []byte(`{"claim":"x","owner":{"holds":[{"ticket":"-1"}]}}`),
		bytes.Repeat([]byte("["), 20_000), bytes.Repeat([]byte{0xff}, 5000), []byte(`{"claim":"x","owner":{"label":"` + strings.Repeat("y", 5000) + `"}}`)} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := read(data)
		if !c.Owner.Fits() && c.Claim != "" || len(c.Owner.Label) > 4*engine.MaxOwner || !utf8.ValidString(c.Owner.Label) {
			t.Errorf("%q shows %q", data, c.Owner.Label)
		}
		if again := read(c.bytes()); c.Claim != "" && again.Revoked != c.Revoked {
			t.Errorf("%q is written as %q", data, c.bytes())
		}
	})
}

func TestAPrefixThatIsNoTextIsRefused(t *testing.T) {
	if _, err := Open(t.Context(), "zookeeper://h?layout=nodes&prefix=a%ff"); err == nil || !strings.Contains(err.Error(), "no node's name may have") {
		t.Errorf("%v", err)
	}
}

func TestDataOfOthersIsShownAndHarmsNobody(t *testing.T) {
	s := zooKeeper(t)
	a, conn := open(t, on(s)), peer(t, s)
	first := a.hold(t, exclusive("x"))
	for _, data := range [][]byte{nil, bytes.Repeat([]byte{0xff}, 900_000), []byte("{\"claim\":"), []byte("\x1b[2J")} {
		if _, err := conn.Create("/x/lock-", data, zk.FlagSequence, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := a.Queue(within(t), "x")
	if err != nil || len(l.Claims) != 5 {
		t.Fatal(len(l.Claims), err)
	}
	for _, c := range l.Claims[1:] {
		if !strings.HasPrefix(c.Owner.Label, "another program") || strings.HasSuffix(c.Owner.Label, ": ") || len(c.Owner.Label) > 4*engine.MaxOwner {
			t.Errorf("%q", c.Owner.Label)
		}
	}
	if got := a.renew(t, first); got.State != engine.Held {
		t.Error(got)
	}
	for _, c := range l.Claims[1:] {
		if err := a.Revoke(within(t), "x", c.Ticket, true); err != nil {
			t.Errorf("Revoke: %v", err)
		}
	}
	a.leave1(t, first)
	a.hold(t, exclusive("x"))
}

// ZooKeeper goes on with negative numbers after 2^31 - 1.
func TestNumbersThatHaveRunOverAreRefusedInWords(t *testing.T) {
	s := zooKeeper(t)
	a, conn := open(t, on(s)), peer(t, s)
	a.leave1(t, a.hold(t, exclusive("x")))
	node := "_c_" + uuidOf(engine.NewID()) + "-lock--2147483648"
	if _, err := conn.Create("/x/"+node, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Join(within(t), a.lasts(exclusive("x"))); !errors.Is(err, nodes.ErrForeign) || !strings.Contains(err.Error(), "run over") {
		t.Errorf("behind one: %v", err)
	}
	// No test makes two thousand million nodes: a claim whose own node has such a number.
	c := &claim{Claim: session.Claim{Request: exclusive("x"), Queue: "/x", Key: "/x/" + node, Phase: session.Placed}}
	if err := a.readQueue(within(t), c); !errors.Is(err, engine.ErrRefused) || c.Phase != session.Placed {
		t.Errorf("its own: %v, %v", err, c.Phase)
	}
	if children, _, err := conn.Children("/x"); err != nil || len(children) != 1 {
		t.Errorf("what is left: %v, %v", children, err)
	}
	a.hold(t, exclusive("y"))
}

// A name that may not be read, one that is no name and one that others use are passed
// over by Queues, and Queue says why.
func TestQueuesPassOverWhatIsNotOurs(t *testing.T) {
	s := zooKeeper(t)
	a, conn := open(t, on(s)), peer(t, s)
	a.hold(t, exclusive("ours"))
	for path, acl := range map[string][]zk.ACL{"/closed": zk.DigestACL(zk.PermAll, "somebody", "secret"), "/%zz": zk.WorldACL(zk.PermAll), "/config": zk.WorldACL(zk.PermAll)} {
		if _, err := conn.Create(path, []byte{0xff}, 0, acl); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Create("/config/\u2028", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for l, err := range a.Queues(within(t), "") {
		if n++; err != nil || l.Name != "ours" {
			t.Errorf("%q, %v", l.Name, err)
		}
	}
	if n != 1 {
		t.Errorf("%d queues", n)
	}
	for _, name := range []string{"closed", "config"} {
		if _, err := a.Queue(within(t), name); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "/"+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The node of a session may be somebody else's, who put it there before: the claim is
// known by its own node then.
func TestASessionsNodeOfSomebodyElse(t *testing.T) {
	s := zooKeeper(t)
	a, conn := open(t, on(s)), peer(t, s)
	now, _ := a.link.current()
	if _, err := conn.Create("/"+nodes.Session(now.id), []byte("theirs"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	c := a.hold(t, exclusive("x"))
	l, err := a.Queue(within(t), "x")
	if err != nil || len(l.Claims) != 1 || l.Claims[0].Ticket != c.Ticket {
		t.Errorf("ticket %d: %+v, %v", c.Ticket, l.Claims, err)
	}
	a.leave1(t, c)
	a.hold(t, exclusive("x"))
}
