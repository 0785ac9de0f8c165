package zklock

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold/engine"
	"leasehold/lab/servers"
)

func TestURLs(t *testing.T) {
	for raw, want := range map[string]Options{
		"zookeeper://h":                                {Servers: []string{"h:2181"}},
		"zookeeper://h1:1,h2,[::1]:3":                  {Servers: []string{"h1:1", "h2:2181", "[::1]:3"}},
		"ZooKeeper://h/a/b?layout=nodes&prefix=client": {Servers: []string{"h:2181"}, Root: "/a/b", Layout: "nodes", Prefix: "client"},
		"zookeeper://me:s%40%2Fs@h/?acl=open":          {Servers: []string{"h:2181"}, User: "me", Password: "s@/s", OpenACL: true},
	} {
		got, err := parseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if strings.Join(got.Servers, ",") != strings.Join(want.Servers, ",") || got.Root != want.Root ||
			got.Layout != want.Layout || got.Prefix != want.Prefix || got.User != want.User || got.Password != want.Password || got.OpenACL != want.OpenACL {
			t.Errorf("%s is %+v", raw, *got)
		}
		if _, err := got.complete(); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for raw, why := range map[string]string{
		"redis://h":                               "not a ZooKeeper URL",
		"zookeepers://h":                          "not host:port", // there is no usual port
		"zookeepers://h:1?ca=/nowhere":            "certificate authority",
		"zookeeper://h?ca=/nowhere":               "zookeepers://",
		"zookeeper://":                            "not host:port",
		"zookeeper://h:0":                         "not host:port",
		"zookeeper://h?sesion=1s":                 `unknown parameter "sesion"`,
		"zookeeper://h?session=20s":               "unknown parameter",
		"zookeeper://h?layout=lines":              "curator (the default), readwrite and nodes",
		"zookeeper://h?prefix=x":                  "only the layout nodes",
		"zookeeper://h?layout=nodes&prefix=a%2Fb": "no node's name may have",
		"zookeeper://h?acl=all":                   "neither open nor creator",
		"zookeeper://me:sesame@h/a//b":            "not the path of a node",
		"zookeeper://me@h":                        "needs a password",
		"zookeeper://me:sesame@h/%zz":             "written as %xx",
		"zookeeper://m%3Ae:sesame@h":              "has a colon",
		"zookeeper://h?password-file=/":           "password",
	} {
		_, err := Open(t.Context(), raw)
		if strings.Contains(why, "written as") {
			why = "write special characters as %xx"
		}
		if !errors.Is(err, engine.ErrURL) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v does not say %q, or is not engine.ErrURL", raw, err, why)
		}
		if err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestWhoIsNotThereIsNamed(t *testing.T) {
	t.Parallel() // it waits in vain
	// Nobody listens, and somebody who never says a word.
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	const nobody = "127.0.0.1:1" // no port that anybody is given
	for _, addr := range []string{nobody, mute.Addr().String()} {
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		_, err := New(ctx, Options{Servers: []string{addr}})
		cancel()
		if err == nil || !strings.Contains(err.Error(), addr) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v does not name %s", err, addr)
		}
		if addr == nobody && !strings.Contains(err.Error(), "refused") {
			t.Errorf("%v does not say why", err)
		}
	}
}

func TestAWrongRootIsNamed(t *testing.T) {
	s := zooKeeper(t)
	o := on(s)
	o.Root = "/apps/lokcs"
	if _, err := New(within(t), o); err == nil || !strings.Contains(err.Error(), "there is no node /apps/lokcs: create it") {
		t.Errorf("%v", err)
	}
	conn := peer(t, s)
	for _, path := range []string{"/apps", "/apps/locks"} {
		if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	o.Root = "/apps/locks"
	a := open(t, o)
	c := a.hold(t, exclusive("x"))
	if children, _, err := conn.Children("/apps/locks/x"); err != nil || len(children) != 1 {
		t.Errorf("%v, %v", children, err)
	}
	for l, err := range a.Queues(within(t), "") {
		if err != nil || l.Name != "x" || l.Claims[0].Ticket != c.Ticket {
			t.Errorf("%+v, %v", l, err)
		}
	}
}

// What the servers allow is what is promised: four ticks, of which the half is trusted, up
// to half of the longest session.
func TestTTLsAreWhatTheServersAllow(t *testing.T) {
	t.Parallel()
	a := open(t, on(servers.ZooKeeper(t, nil))) // sessions of two to twenty ticks of 200 ms
	if g := a.Guarantees(); g.MinTTL != 400*time.Millisecond || g.MaxTTL != 2*time.Second {
		t.Errorf("%v to %v", g.MinTTL, g.MaxTTL)
	}
	if got := a.hold(t, exclusive("x")).TTL; got != 2*time.Second {
		t.Errorf("the longest is %v", got)
	}
	o := on(servers.ZooKeeper(t, &servers.ZooKeeperOptions{Config: []string{"minSessionTimeout=4000", "maxSessionTimeout=6000"}}))
	if _, err := New(within(t), o); err == nil || !strings.Contains(err.Error(), "raise their maxSessionTimeout") {
		t.Errorf("no session is twice the shortest: %v", err)
	}
}

// The recipe of the package documentation, word for word.
const leastACL = "cr"

func TestLeastPrivilege(t *testing.T) {
	s := zooKeeper(t)
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), ":"+leastACL+"\n") {
		t.Errorf("the documentation does not have the tested permissions %q", leastACL)
	}
	conn := peer(t, s)
	if _, err := conn.Create("/locks", nil, 0, zk.DigestACL(zk.PermCreate|zk.PermRead, "app", "secret")); err != nil {
		t.Fatal(err)
	}
	o := on(s)
	o.Root, o.User, o.Password = "/locks", "app", "secret"
	a, b := open(t, o), open(t, o)
	received := b.notifications(t)
	first := a.hold(t, exclusive("x"))
	second := b.wait(t, exclusive("x"))
	if err := b.Revoke(within(t), "x", first.Ticket, false); err != nil {
		t.Errorf("Revoke: %v", err)
	}
	a.leave1(t, first)
	receive(t, received, heldNotification(second.ID))
	if got := b.renew(t, second); got.State != engine.Held {
		t.Error(got)
	}
	permits := []engine.Claim{a.hold(t, want("n", 1, 2)), a.hold(t, want("n", 1, 2))}
	third := b.wait(t, want("n", 1, 2))
	a.leave1(t, permits[0])
	receive(t, received, heldNotification(third.ID))
	if err := b.Revoke(within(t), "n", permits[1].Ticket, true); err != nil {
		t.Errorf("Revoke at once: %v", err)
	}
	n := 0
	for _, err := range a.Queues(within(t), "") {
		if err != nil {
			t.Errorf("Queues: %v", err)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d queues", n)
	}

	t.Run("a stranger", func(t *testing.T) {
		for _, user := range []string{"", "other"} {
			o := o
			if o.User = user; user == "" {
				o.Password = ""
			}
			e := open(t, o)
			for _, name := range []string{"x", "fresh"} {
				if got, err := e.Join(within(t), e.lasts(exclusive(name))); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "/locks/"+name) {
					t.Errorf("user %q, %s: %v, %v", user, name, got.State, err)
				}
			}
			if _, err := e.Queue(within(t), "x"); !errors.Is(err, engine.ErrRefused) {
				t.Errorf("Queue for user %q: %v", user, err)
			}
			if err := e.Revoke(within(t), "x", second.Ticket, true); !errors.Is(err, engine.ErrRefused) {
				t.Errorf("Revoke by user %q: %v", user, err)
			}
		}
		if got := b.renew(t, second); got.State != engine.Held {
			t.Error(got)
		}
	})
}

// Who may make a node and not remove it is told so, and never that it has gone.
func TestANodeThatMayNotBeRemovedIsNotCalledGone(t *testing.T) {
	s := zooKeeper(t)
	conn := peer(t, s)
	if _, err := conn.Create("/x", nil, 0, zk.WorldACL(zk.PermRead|zk.PermCreate)); err != nil {
		t.Fatal(err)
	}
	a := open(t, on(s))
	c := a.hold(t, exclusive("x"))
	for range 2 {
		if got, err := a.Leave(within(t), []engine.Claim{c}); !errors.Is(err, engine.ErrRefused) || len(got) > 0 {
			t.Errorf("%v, %v", got, err)
		}
	}
	if l, err := a.Queue(within(t), "x"); err != nil || len(l.Claims) != 1 {
		t.Errorf("%+v, %v", l.Claims, err)
	}
}

// Its session may end after that, and its client goes on.
func TestASessionEndsAfterALeaveThatWasRefused(t *testing.T) {
	t.Parallel()
	s := beside(t)
	if _, err := peer(t, s).Create("/refused-leave", nil, 0, zk.WorldACL(zk.PermRead|zk.PermCreate)); err != nil {
		t.Fatal(err)
	}
	a := open(t, dying(s))
	c := a.hold(t, exclusive("refused-leave"))
	if got, err := a.Leave(within(t), []engine.Claim{c}); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("%v, %v", got, err)
	}
	a.expire(t)
	a.hold(t, exclusive("refused-leave"))
	if got := a.leave1(t, c); got.State != engine.Gone {
		t.Errorf("after its session the claim is %v", got.State)
	}
}

func TestWhatIsMadeBelongsToItsMaker(t *testing.T) {
	s := zooKeeper(t)
	conn := peer(t, s)
	if err := conn.AddAuth("digest", []byte("app:secret")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o      Options
		scheme string
	}{
		{Options{}, "world"},
		{Options{User: "app", Password: "secret"}, "digest"},
		{Options{User: "app", Password: "secret", OpenACL: true}, "world"},
	} {
		o := c.o
		o.Servers = []string{s.Addr}
		a := open(t, o)
		name := "x" + c.scheme + itoa(len(c.o.User))
		if c.o.OpenACL {
			name += "open"
		}
		a.hold(t, exclusive(name))
		a.mu.Lock()
		var node string
		for _, c := range a.m.Claims {
			node = c.Key
		}
		a.mu.Unlock()
		for _, path := range []string{"/" + name, node} {
			acl, _, err := conn.GetACL(path)
			if err != nil || len(acl) != 1 || acl[0].Scheme != c.scheme {
				t.Errorf("user %q, open %v: %s has %v, %v", c.o.User, c.o.OpenACL, path, acl, err)
			}
		}
	}
}

func TestThePasswordMayComeFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parseURL("zookeeper://me@h?password-file=" + file)
	if err != nil || o.User != "me" || o.Password != "sesame" {
		t.Errorf("%+v, %v", o, err)
	}
}

// Who may not read what stands before it is refused, and out of the queue again:
// nobody would ever ask for that claim once more, and it would block the name for as
// long as this client lives.
func TestWhoIsRefusedInQueueLeavesIt(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	conn := peer(t, s)
	if err := conn.AddAuth("digest", []byte("somebody:secret")); err != nil {
		t.Fatal(err)
	}
	a.leave1(t, a.hold(t, exclusive("x")))
	secret := "/x/" + a.layout.Prefix(uuidOf(engine.NewID()), engine.Max, engine.Max)
	if _, err := conn.Create(secret, nil, zk.FlagEphemeralSequential, zk.DigestACL(zk.PermAll, "somebody", "secret")); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Join(within(t), a.lasts(exclusive("x"))); !errors.Is(err, engine.ErrRefused) {
		t.Fatalf("behind a node that it may not read: %v, %v", got.State, err)
	}
	if children, _, err := conn.Children("/x"); err != nil || len(children) != 1 {
		t.Errorf("refused, and the queue is %q, %v", children, err)
	}
}

// One request proves the claims of a session. A node that its client may not read keeps no other
// claim from being proven, and the refusal names it.
func TestANodeThatMayNotBeReadIsRenewedForNoOther(t *testing.T) {
	s := zooKeeper(t)
	a, conn := open(t, on(s)), peer(t, s)
	var asked []engine.Renewal
	var keys []string
	for i := range 7 {
		held := a.hold(t, exclusive("x"+itoa(i)))
		a.mu.Lock()
		keys = append(keys, a.m.Claims[held.ID].Key)
		a.mu.Unlock()
		asked = append(asked, engine.Renewal{Name: held.Name, ID: held.ID, Want: a.usual})
	}
	const closed = 2
	removed := []int{0, 5} // before it, and behind it
	if _, err := conn.SetACL(keys[closed], zk.DigestACL(zk.PermAll, "somebody", "secret"), -1); err != nil {
		t.Fatal(err)
	}
	want := map[engine.ID]engine.State{}
	for i, r := range asked {
		switch {
		case slices.Contains(removed, i):
			if err := conn.Delete(keys[i], -1); err != nil {
				t.Fatal(err)
			}
			want[r.ID] = engine.Gone
		case i != closed:
			want[r.ID] = engine.Held
		}
	}
	got, err := a.Renew(within(t), asked)
	if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), keys[closed]) {
		t.Errorf("%v does not name %s", err, keys[closed])
	}
	states := map[engine.ID]engine.State{}
	for _, c := range got {
		states[c.ID] = c.State
	}
	if !maps.Equal(states, want) {
		t.Errorf("renewed: %v, want %v", states, want)
	}
}

func TestBelowAnEphemeralNodeIsRefused(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	if _, err := peer(t, s).Create("/x", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Join(within(t), a.lasts(exclusive("x"))); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("%v, %v", got.State, err)
	}
}
