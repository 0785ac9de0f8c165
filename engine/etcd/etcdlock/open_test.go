package etcdlock

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"
	"google.golang.org/grpc/connectivity"

	"leasehold/engine"
	"leasehold/lab/servers"
)

func opens(t testing.TB, url string) engine.Engine {
	t.Helper()
	e, err := Open(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// The role of the package documentation is enough for everything, and less is
// refused when the engine is opened.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	ctx := within(t)
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(admin.UserAdd(ctx, "root", "toor"))
	must(admin.UserGrantRole(ctx, "root", "root"))
	must(admin.RoleAdd(ctx, "leasehold"))
	must(admin.RoleGrantPermission(ctx, "leasehold", "leasehold/", clientv3.GetPrefixRangeEnd("leasehold/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	must(admin.UserAdd(ctx, "app", "p/ss@word"))
	must(admin.UserGrantRole(ctx, "app", "leasehold"))
	must(admin.UserAdd(ctx, "nobody", "secret"))
	must(admin.AuthEnable(ctx))

	url := "etcd://app:p%2Fss%40word@" + server.Addr
	a, b := opens(t, url), opens(t, url)
	received, notified := watch(t, b), watch(t, a)
	first := joins(t, a, exclusive("x"), engine.Held)
	second := joins(t, b, exclusive("x"), engine.Waiting)
	receives(t, notified, as(first, engine.Held)) // contended
	renew(t, a, first)
	renew(t, b, second)
	leave(t, a, first)
	receives(t, received, as(second, engine.Held))
	for _, now := range []bool{false, true} {
		r := exclusive("y")
		r.Detached, r.WaitTTL = true, 20*time.Second
		c := joins(t, a, r, engine.Held)
		if err := b.Revoke(within(t), "y", c.Ticket, now); err != nil {
			t.Errorf("Revoke: %v", err)
		}
		receives(t, notified, as(c, engine.Gone))
		leave(t, a, c)
	}
	if l, err := a.Queue(within(t), "x"); err != nil || len(l.Claims) != 1 {
		t.Errorf("Queue: %+v, %v", l, err)
	}
	for _, err := range a.Queues(within(t), "") {
		if err != nil {
			t.Errorf("Queues: %v", err)
		}
	}
	for url, want := range map[string]string{
		"etcd://app:p%2Fss%40word@" + server.Addr + "/other": "lacks a role",
		"etcd://nobody:secret@" + server.Addr:                "lacks a role",
		"etcd://app:wrong@" + server.Addr:                    "wrong user or password",
		"etcd://" + server.Addr:                              "wants a user",
	} {
		if _, err := Open(within(t), url); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "p%2Fss") || strings.Contains(err.Error(), "p/ss") {
			t.Errorf("%s: %v, want one that says %q", url, err, want)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, &servers.EtcdOptions{TLS: true})
	e := opens(t, "etcds://"+server.Addr+"/locks?ca="+server.CAFile)
	joins(t, e, exclusive("x"), engine.Held)
	// An authority that is not known, and a server that is not asked for TLS.
	for _, url := range []string{"etcds://" + server.Addr, "etcd://" + server.Addr} {
		if _, err := Open(within(t), url); err == nil {
			t.Errorf("%s: opened", url)
		}
	}
}

// Debian's etcd is too old, which is said, and can be accepted.
func TestOldServerIsRefused(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, &servers.EtcdOptions{Old: true})
	_, err := Open(within(t), "etcd://"+server.Addr)
	if err == nil || !strings.Contains(err.Error(), "3.4.") || !strings.Contains(err.Error(), "allow-old") {
		t.Fatalf("an old server is opened with %v", err)
	}
	e := opens(t, "etcd://"+server.Addr+"?allow-old")
	leave(t, e, joins(t, e, exclusive("x"), engine.Held))
}

func TestVersions(t *testing.T) {
	for v, want := range map[version]bool{
		{3, 4, 99}: false, {3, 5, 27}: false, {3, 5, 28}: true, {3, 5, 40}: true,
		{3, 6, 8}: false, {3, 6, 9}: true, {3, 7, 0}: true, {4, 0, 0}: true, {2, 9, 99}: false,
	} {
		if v.safe() != want {
			t.Errorf("%v is safe: %v", v, v.safe())
		}
	}
}

// One dead member among several, and one that is not there yet.
func TestSeveralEndpoints(t *testing.T) {
	t.Parallel() // it mostly waits
	cluster := servers.EtcdCluster(t, nil)
	if err := cluster.Members[0].Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Leader(); err != nil {
		t.Fatal(err)
	}
	e := opens(t, "etcd://"+strings.Join(cluster.Addrs(), ",")+"/a/prefix")
	joins(t, e, exclusive("x"), engine.Held)
	if g := e.Guarantees(); g.MinTTL != 833*time.Millisecond || g.MaxTTL != 0 {
		t.Errorf("guarantees %+v", g)
	}
	if key := e.(*Engine).keys.prefix; key != "a/prefix/" {
		t.Errorf("prefix %q", key)
	}
}

func TestNobodyIsThere(t *testing.T) {
	t.Parallel() // it mostly waits
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := Open(ctx, "etcd://me:sesame@127.0.0.1:1"); err == nil || strings.Contains(err.Error(), "sesame") || ctx.Err() != nil {
		t.Errorf("Open: %v", err)
	}
}

// The caller's own client, in a namespace of its own as etcd's library makes them.
func TestOwnClient(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	plain := dial(t, clientv3.Config{}, server.Addr)
	own := dial(t, clientv3.Config{}, server.Addr)
	own.KV, own.Watcher, own.Lease = namespace.NewKV(own.KV, "mine/"), namespace.NewWatcher(own.Watcher, "mine/"), namespace.NewLease(own.Lease, "mine/")
	e, other := start(t, own.Client, nil), start(t, own.Client, nil)
	received := watch(t, other)
	held := joins(t, e, exclusive("x"), engine.Held)
	next := joins(t, other, exclusive("x"), engine.Waiting)
	leave(t, e, held)
	receives(t, received, as(next, engine.Held))
	r, err := plain.Get(within(t), "", clientv3.WithFromKey(), clientv3.WithKeysOnly())
	if err != nil || len(r.Kvs) == 0 {
		t.Fatal(r, err)
	}
	for _, kv := range r.Kvs {
		if !strings.HasPrefix(string(kv.Key), "mine/leasehold/") {
			t.Errorf("a key outside: %q", kv.Key)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := own.Get(within(t), "x"); err != nil {
		t.Errorf("the caller's client was closed: %v", err)
	}
}

func TestURLs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, o, err := parseURL("ETCDS://me@h1,h2:1,[::1]:2/some/where/?allow-old=true&password-file=" + file)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Endpoints, " "); got != "https://h1:2379 https://h2:1 https://[::1]:2" {
		t.Errorf("endpoints %s", got)
	}
	if c.Username != "me" || c.Password != "sesame" || c.TLS == nil || o.Prefix != "some/where/" || !o.AllowOld {
		t.Errorf("read as %+v, user %q", *o, c.Username)
	}
	for url, want := range map[string]string{
		"http://h":              "not an etcd URL",
		"etcd:h":                "not an etcd URL",
		"etcd://h:0":            "not host:port",
		"etcd://h,":             "not host:port",
		"etcd://h?tll=1s":       "unknown parameter",
		"etcd://h?allow-old=ja": "write true or false",
		"etcd://me@h":           "without a password",
		"etcd://:sesame@h":      "without a user",
		"etcd://me:%zz@h":       "%xx",
		"etcds://h?ca=/nowhere": "authority",
		"etcd://h?ca=/nowhere":  "use etcds://",
		"etcd://h?cert=":        "use etcds://",
		"etcd://h?key=/nowhere": "use etcds://",

		"etcd://h/line/x":                      "a shorter prefix",
		"etcd://h/" + strings.Repeat("x", 128): "more than 128 bytes",
	} {
		_, err := Open(within(t), url)
		if !errors.Is(err, engine.ErrURL) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v, want an engine.ErrURL that says %q", url, err, want)
		}
	}
	for _, o := range []Options{{Prefix: strings.Repeat("x", 129)}, {Prefix: "\x00"}} {
		if _, err := New(t.Context(), nil, &o); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// A user's token has expired: watches go on a stream whose token is the one that it
// was opened with, and etcd refuses new ones there.
func TestTokenOfTheUserExpires(t *testing.T) {
	t.Parallel() // it mostly waits
	server := servers.Etcd(t, &servers.EtcdOptions{Args: []string{"--auth-token-ttl=1"}})
	admin := dial(t, clientv3.Config{}, server.Addr)
	for _, err := range []error{
		second(admin.UserAdd(t.Context(), "root", "pw")),
		second(admin.UserGrantRole(t.Context(), "root", "root")),
		second(admin.AuthEnable(t.Context())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	user := clientv3.Config{Username: "root", Password: "pw"}
	other := start(t, dial(t, user, server.Addr).Client, nil)
	e := start(t, dial(t, user, server.Addr).Client, nil)
	received := watch(t, e)
	holder := joins(t, other, exclusive("a"), engine.Held)
	time.Sleep(3 * time.Second) // etcd looks once a second which have
	mine := joins(t, e, exclusive("a"), engine.Waiting)
	until(t, "the holder is watched", func() bool {
		return renew(t, e, mine).State == engine.Waiting && watchers(t, server) >= 2
	})
	leave(t, other, holder)
	receives(t, received, as(mine, engine.Held))
}

func second[T any](_ T, err error) error { return err }

// A call that ends without an answer says why there is no connection: gRPC names an error
// of connecting, or the one that ended the last connection.
func TestACallWithoutAServerSaysWhy(t *testing.T) {
	t.Parallel()
	proxy := servers.ProxyTo(t, servers.Etcd(t, nil).Addr)
	e := startUsual(t, dial(t, clientv3.Config{}, proxy.Addr).Client, nil)
	held := joins(t, e, exclusive("a"), engine.Held)
	proxy.Refuse(true)
	proxy.Reset()
	until(t, "it is connected", func() bool { return e.client.ActiveConnection().GetState() == connectivity.TransientFailure })
	says := regexp.MustCompile("connection |broken pipe") // how the last connection ended is a race of the reset with a write
	// It says why unless it connects at that moment, or the time to ask was over.
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, joined := e.Join(ctx, exclusive("b"))
		_, renewed := e.Renew(ctx, []engine.Renewal{{Name: held.Name, ID: held.ID, Want: short}})
		_, seen := e.Queue(ctx, "a")
		_, left := e.Leave(ctx, []engine.Claim{held})
		cancel()
		all := map[string]error{"Join": joined, "Renew": renewed, "Queue": seen, "Leave": left}
		say := 0
		for call, err := range all {
			if err == nil || !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: %v", call, err)
			}
			if says.MatchString(err.Error()) {
				say++
			}
		}
		if say == len(all) {
			return
		}
		if try == 5 {
			t.Fatalf("not all say why: %v", all)
		}
	}
}

// A server that is stopped accepts connections. gRPC by itself would wait 20 s for each.
func TestAMuteConnectionIsTriedAgainSoon(t *testing.T) {
	t.Parallel() // it mostly waits
	proxy := servers.ProxyTo(t, servers.Etcd(t, nil).Addr)
	opens(t, "etcd://"+proxy.Addr)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	var tries atomic.Int32
	go func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			tries.Add(1)
		}
	}()
	proxy.Retarget(mute.Addr().String())
	proxy.Reset()
	until(t, "it is tried again", func() bool { return tries.Load() >= 12 })
}
