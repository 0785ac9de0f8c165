package etcdlock

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// answering is the address of a server that says that to whoever connects, and calls
// met first. Of nothing, it says nothing.
func answering(t testing.TB, says string, met func()) string {
	t.Helper()
	return servers.Impostor(t, "tcp", func(c net.Conn) {
		met()
		_, _ = c.Write([]byte(says)) // it may have gone
	})
}

// What is no etcd is called that, in the time that opening may take.
func TestWhatAnswersIsNotEtcd(t *testing.T) {
	t.Parallel() // it mostly waits
	plain, secure := servers.Etcd(t, nil), servers.Etcd(t, &servers.EtcdOptions{TLS: true})
	redis := answering(t, "-ERR unknown command 'PRI'\r\n", func() {})
	for url, want := range map[string]string{
		"etcd://" + redis:                       "not etcd: it says \"-ERR",
		"etcd://me:sesame@" + redis:             "not etcd: it says \"-ERR",
		"etcd://" + redis + "?allow-old":        "not etcd: it says \"-ERR",
		"etcds://" + redis:                      "speaks no TLS",
		"etcds://" + plain.Addr:                 "speaks no TLS",
		"etcds://" + secure.Addr:                "no TLS with " + secure.Addr,
		"etcd://" + secure.Addr:                 "etcds://",
		"etcd://" + answering(t, "", func() {}): "says nothing",
		"etcd://127.0.0.1:1":                    "nobody answers at 127.0.0.1:1",
	} {
		t.Run(url[:7]+want, func(t *testing.T) {
			t.Parallel()
			for try := 1; ; try++ { // on a machine that is late the time for asking who answers may be over
				_, err := Open(within(t), url)
				if err == nil || strings.Contains(err.Error(), "sesame") {
					t.Fatalf("%v, want one that says %q", err, want)
				}
				if strings.Contains(err.Error(), want) {
					return
				}
				if try == 3 {
					t.Fatalf("%v, want one that says %q", err, want)
				}
			}
		})
	}
}

// Opening obeys its context, also while the library asks for a token.
func TestOpenObeysItsContext(t *testing.T) {
	for _, user := range []string{"", "me:sesame@"} {
		ctx, cancel := context.WithCancel(t.Context())
		addr := answering(t, "", cancel) // as soon as it has connected
		if _, err := Open(ctx, "etcd://"+user+addr); !errors.Is(err, context.Canceled) {
			t.Errorf("%q: %v", user, err)
		}
		cancel()
	}
}

// One of three members is stopped: opening does not wait for it.
func TestOpenDoesNotWaitForAStoppedMember(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	one, other := servers.ProxyTo(t, server.Addr), servers.ProxyTo(t, server.Addr)
	stopped := answering(t, "", func() {})
	ended := make(chan error, 1)
	watching := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		err := invoke(ctx, method, req, reply, cc, opts...)
		if _, status := req.(*pb.StatusRequest); status && err != nil {
			ended <- ctx.Err()
		}
		return err
	}
	w := dial(t, clientv3.Config{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(watching)}}, stopped, one.Addr, other.Addr)
	e := start(t, w.Client, nil)
	// Nobody waited for it any more: not the time ran out.
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the question to the stopped member ended with %v", err)
	}
	joins(t, e, exclusive("a"), engine.Held)
}

// Addresses of two clusters would grant one lock twice.
func TestMembersOfTwoClusters(t *testing.T) {
	t.Parallel()
	one, other := servers.Etcd(t, nil), servers.Etcd(t, nil)
	id := func(s *servers.EtcdServer) uint64 {
		r, err := dial(t, clientv3.Config{}, s.Addr).Status(within(t), s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		return r.Header.ClusterId
	}
	if id(one) == id(other) {
		t.Fatal("void: they have the same identifier")
	}
	if _, err := Open(within(t), "etcd://"+one.Addr+","+other.Addr); err == nil || !strings.Contains(err.Error(), "cluster") {
		t.Errorf("Open: %v", err)
	}
}

// A member that comes back with an older program is found when it is connected to.
func TestMemberComesBackOlder(t *testing.T) {
	t.Parallel() // it mostly waits
	old, now := servers.Etcd(t, &servers.EtcdOptions{Old: true}), servers.Etcd(t, nil)
	proxy := servers.ProxyTo(t, now.Addr)
	e := opens(t, "etcd://"+proxy.Addr)
	joins(t, e, exclusive("a"), engine.Held)
	if err := e.(*Engine).Check(within(t)); err != nil {
		t.Fatal(err)
	}
	proxy.Retarget(old.Addr)
	proxy.Reset()
	until(t, "a Join is refused", func() bool {
		c, err := e.Join(within(t), exclusive("b"))
		if err == nil {
			leave(t, e, c)
		}
		return errors.Is(err, engine.ErrRefused) && strings.Contains(err.Error(), "3.4.")
	})
	if err := e.(*Engine).Check(within(t)); err == nil {
		t.Error("Check says nothing")
	}
	proxy.Retarget(now.Addr)
	proxy.Reset()
	until(t, "a Join is granted", func() bool {
		c, err := e.Join(within(t), exclusive("c"))
		return err == nil && c.State == engine.Held
	})
}
