package etcdlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"leasehold/engine"
	"leasehold/internal/mailbox"
	"leasehold/lab/servers"
)

// A transaction that tidies up is late: by then another claim has the key.
func TestLateTidyingOfAKeyThatIsUsedAgain(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	e.table.mu.Lock()
	e.table.tidying = true // this test does
	e.table.mu.Unlock()
	r := exclusive("a")
	former := joins(t, e, r, engine.Held)
	key := e.table.get(r.ID).key
	e.abandon([]engine.Claim{former})
	arrive := w.holdBack()
	if err := e.tidyUp(within(t)); err == nil {
		t.Fatal("void: it was answered")
	}
	if err := e.tidyUp(within(t)); err != nil {
		t.Fatal(err)
	}
	next := joins(t, e, exclusive("a"), engine.Held)
	if e.table.get(next.ID).key != key {
		t.Fatal("void: it has another key")
	}
	if err := arrive(); err != nil {
		t.Fatal(err)
	}
	if got := renew(t, e, next); got.State != engine.Held {
		t.Errorf("the next claim is %v", got.State)
	}
}

// expect records a claim in a table without an engine.
func expect(t *table, k keys, r *engine.Request, highWater uint64) *claim {
	c, _ := t.expect(k, "me", r, time.Minute, nil, highWater)
	return c
}

// What was read earlier and arrives later shows a claim waiting that holds.
func TestLateQueueDoesNotUnsayAHold(t *testing.T) {
	k := keys{"p/"}
	r := exclusive("a")
	var all table
	all.start(func(engine.Claim) {}, func(*class) {})
	c := expect(&all, k, &r, 0)
	mine := &mvccpb.KeyValue{Key: []byte(c.key), CreateRevision: 7, Version: 1}
	ahead := &mvccpb.KeyValue{Key: []byte(k.claim("a", engine.Max, engine.Max, "other", 0)), CreateRevision: 5, Version: 1}
	before := k.read(&pb.RangeResponse{Kvs: []*mvccpb.KeyValue{mine, ahead}, Count: 2})
	after := k.read(&pb.RangeResponse{Kvs: []*mvccpb.KeyValue{mine}, Count: 1})
	for i, step := range []struct {
		queue line
		want  engine.State
	}{{before, engine.Waiting}, {after, engine.Held}, {before, engine.Held}, {after, engine.Held}} {
		if got := all.report(c, all.promote(c, step.queue)); got.State != step.want || got.Ticket != 7 {
			t.Errorf("step %d: %v with ticket %d; want %v", i, got.State, got.Ticket, step.want)
		}
	}
}

// The identifier that a member makes for a lease is taken: it makes another one.
func TestLeaseAlreadyExists(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	w.fail("LeaseGrant", rpctypes.ErrGRPCLeaseExist)
	e := start(t, w.Client, nil)
	w.fail("LeaseGrant", rpctypes.ErrGRPCLeaseExist, rpctypes.ErrGRPCLeaseExist)
	r := exclusive("a")
	r.Detached = true
	joins(t, e, r, engine.Held)
}

// A ticket that is not above what this client saw is no ticket, and leaves nothing.
func TestTicketBelowWhatWasSeen(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	before := joins(t, e, exclusive("before"), engine.Held)
	e.past.atLeast(1_000_000)
	if c, err := e.Join(within(t), exclusive("a")); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "backup") {
		t.Fatalf("%v with ticket %d, %v", c.State, c.Ticket, err)
	}
	if got := renew(t, e, before); got.State != engine.Held {
		t.Errorf("a claim of before is %v", got.State)
	}
	leave(t, e, before)
	nobody(t, admin)
}

// What hangs on the session and is no claim that is known is deleted: under a key that
// nobody has, and under one that a claim has with another value. What is known stays.
func TestUnknownKeysOfASession(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	known, other := joins(t, e, exclusive("known"), engine.Held), joins(t, e, exclusive("other"), engine.Held)
	session := clientv3.WithLease(now(e).id)
	unknown := e.keys.claim("unknown", engine.Max, engine.Max, e.name, 0)
	for key, value := range map[string]string{unknown: "x", e.table.get(other.ID).key: "another value"} {
		if _, err := admin.Put(within(t), key, value, session); err != nil {
			t.Fatal(err)
		}
	}
	e.past.alarm()
	until(t, "one key is left", func() bool {
		r, err := admin.Get(within(t), "leasehold/line/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && r.Count == 1
	})
	if got := renew(t, e, known); got.State != engine.Held {
		t.Errorf("a claim that is known is %v", got.State)
	}
}

// All connections were lost and there is one again: what stands is compared.
func TestWhatStandsIsComparedAfterAReconnect(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	proxy := servers.ProxyTo(t, server.Addr)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, proxy.Addr).Client, nil)
	if _, err := admin.Put(within(t), e.keys.claim("unknown", engine.Max, engine.Max, e.name, 0), "x", clientv3.WithLease(now(e).id)); err != nil {
		t.Fatal(err)
	}
	// A connection that is lost and made again while the engine does not look goes unnoticed.
	for range 3 {
		proxy.Reset()
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			r, err := admin.Get(within(t), "leasehold/line/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err == nil && r.Count == 0 {
				return
			}
		}
	}
	proxy.Reset()
	nobody(t, admin)
}

// listensOnly is an engine that only notices reconnects, and what it reaches etcd by.
func listensOnly(t *testing.T) (*Engine, *servers.Proxy) {
	t.Helper()
	proxy := servers.ProxyTo(t, servers.Etcd(t, nil).Addr)
	e := &Engine{
		client: dial(t, clientv3.Config{}, proxy.Addr).Client,
		judge:  make(chan struct{}, 1), past: past{look: make(chan struct{}, 1)},
	}
	if _, err := e.client.Get(within(t), "a"); err != nil {
		t.Fatal(err)
	}
	return e, proxy
}

// The connection is lost before the engine looks at it first: that is a loss too.
func TestAConnectionThatWasLostEarlyIsNoticed(t *testing.T) {
	t.Parallel()
	e, proxy := listensOnly(t)
	conn := e.client.ActiveConnection()
	// round reports whether it was noticed: not if the first look comes so late that there is a
	// connection again.
	round := func() bool {
		proxy.Refuse(true)
		proxy.Reset()
		until(t, "the connection is lost", func() bool { return conn.GetState() == connectivity.TransientFailure })
		life, end := context.WithCancel(t.Context())
		var listening sync.WaitGroup
		listening.Go(func() { e.reconnects(life) })
		time.Sleep(50 * time.Millisecond) // it looks
		proxy.Refuse(false)
		until(t, "it is connected", func() bool { return conn.GetState() == connectivity.Ready })
		for end := time.Now().Add(5 * time.Second); len(e.judge) == 0 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		end()
		listening.Wait()
		return len(e.judge) == 1
	}
	for range 3 {
		if round() {
			if len(e.past.look) != 1 {
				t.Error("what stands is not compared")
			}
			return
		}
	}
	t.Error("the reconnect is never seen")
}

// A reconnect has what stands compared, before it has the members judged.
func TestAReconnectHasItCompared(t *testing.T) {
	t.Parallel()
	e, proxy := listensOnly(t)
	life, end := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { e.reconnects(life) })
	until(t, "the reconnect is seen", func() bool {
		proxy.Reset() // again: it may not have listened yet
		if _, err := e.client.Get(within(t), "a"); err != nil {
			t.Fatal(err)
		}
		return len(e.judge) == 1
	})
	if len(e.past.look) != 1 {
		t.Error("what stands is not compared")
	}
	end()
	listening.Wait()
}

// A key is known if a claim has it, with its value.
func TestWhichKeysAreKnown(t *testing.T) {
	c := &claim{key: "key", value: "value"}
	all := table{keyed: map[string]*claim{c.key: c}}
	for _, kv := range []struct {
		key, value string
		known      bool
	}{{"key", "value", true}, {"key", "another value", false}, {"unknown", "value", false}, {"unknown", "", false}} {
		if all.knows(kv.key, kv.value) != kv.known {
			t.Errorf("%q with %q: known is not %v", kv.key, kv.value, kv.known)
		}
	}
}

// The revision of an answer is below what an answer before had: the store went back,
// which is looked into, and the subscription to notifications begins anew.
func TestStoreWentBack(t *testing.T) {
	t.Parallel()
	p := past{look: make(chan struct{}, 1)}
	answer := func(cluster uint64, revision, asked int64) (alarm, back bool) {
		p.saw(&pb.ResponseHeader{ClusterId: cluster, Revision: revision}, asked)
		return len(p.look) > 0, p.wentBack()
	}
	for i, step := range []struct {
		cluster         uint64
		revision, asked int64
		back            bool
		highWater       uint64
	}{
		{1, 10, 0, false, 10}, {1, 12, 10, false, 12},
		{1, 11, 10, false, 12}, // of before, and late
		{1, 5, 12, true, 12}, {1, 6, 5, false, 12}, {1, 13, 6, false, 13},
		{2, 20, 13, true, 20}, {2, 20, 20, false, 20},
	} {
		alarm, back := answer(step.cluster, step.revision, step.asked)
		if alarm != step.back || back != step.back || p.highWater() != step.highWater {
			t.Errorf("step %d: alarm %v, back %v, floor %d; want %v, %d", i, alarm, back, p.highWater(), step.back, step.highWater)
		}
		if alarm {
			<-p.look
		}
	}

	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	received := watch(t, e)
	e.past.saw(&pb.ResponseHeader{Revision: 1}, 2)
	receives(t, received, engine.Claim{}) // the subscription began again
	if err := e.Check(within(t)); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("Check: %v, want what happened", err)
	}
	if err := e.Check(within(t)); err != nil {
		t.Errorf("Check, once more: %v", err)
	}
}

// What keep-alives say of the revision counts: a client that does nothing else would
// know nothing of what others did.
func TestKeepAlivesNotifyTheRevision(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	r, err := dial(t, clientv3.Config{}, server.Addr).Put(within(t), "elsewhere", "")
	if err != nil {
		t.Fatal(err)
	}
	s := now(e)
	if err := e.prove(within(t), first(e), s.id, s.until+1); e.past.highWater() < uint64(r.Header.Revision) {
		t.Errorf("revision %d, and the client knows of %d, %v", r.Header.Revision, e.past.highWater(), err)
	}
}

// Who asks for a queue while it is read is answered by the next reading, which goes as
// far as the last of those that ask.
func TestLookIsOfAfterTheCall(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	type looked struct {
		l   line
		err error
	}
	first, second, third := make(chan looked, 1), make(chan looked, 1), make(chan looked, 1)
	look := func(got chan looked, upTo uint64) {
		l, _, err := e.lookAt(within(t), reading{name: "a"}, upTo)
		got <- looked{l, err}
	}
	reads, goOn := make(chan struct{}), make(chan struct{})
	w.before("Range", func() { close(reads); <-goOn })
	go look(first, 1)
	<-reads
	one, other := joins(t, e, exclusive("a"), engine.Held), joins(t, e, exclusive("a"), engine.Waiting)
	go look(second, one.Ticket)
	go look(third, other.Ticket)
	until(t, "both ask for the next", func() bool {
		e.looks.mu.Lock()
		defer e.looks.mu.Unlock()
		n := e.looks.next[reading{name: "a"}]
		return n != nil && n.upTo == other.Ticket
	})
	close(goOn)
	if got := <-first; got.err != nil {
		t.Error(got.err)
	}
	for _, ch := range []chan looked{second, third} {
		if got := <-ch; got.err != nil || len(got.l.places) != 2 {
			t.Errorf("%d are in the queue, %v", len(got.l.places), got.err)
		}
	}
	if l, _, err := e.lookAt(within(t), reading{name: "a"}, 0); err != nil || len(l.places) != 2 {
		t.Errorf("and once more: %d, %v", len(l.places), err)
	}
}

// Whom one waits for has gone by the time that it leaves, and it has not heard: it is
// found held.
func TestWhoLeavesHoldsWithoutKnowing(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	held := joins(t, other, exclusive("a"), engine.Held)
	mine, behind := joins(t, e, exclusive("a"), engine.Waiting), joins(t, e, exclusive("a"), engine.Waiting)
	if got := leave(t, e, behind); got != engine.Waiting {
		t.Errorf("who waits leaves as %v", got)
	}
	e.table.mu.Lock()
	e.table.m.Claims[mine.ID].unattend() // so it does not hear
	e.table.mu.Unlock()
	if _, err := admin.Delete(within(t), other.table.get(held.ID).key); err != nil {
		t.Fatal(err)
	}
	if got := leave(t, e, mine); got != engine.Held {
		t.Errorf("who holds without knowing leaves as %v", got)
	}
}

// A key with a ticket below the claim's own is from before it, though above what the
// client had seen when it asked.
func TestFormerLifeIsNotBelieved(t *testing.T) {
	k := keys{"p/"}
	r := exclusive("a")
	var all table
	all.start(func(engine.Claim) {}, func(*class) {})
	c := expect(&all, k, &r, 5)
	at := func(ticket int64) line {
		return k.read(&pb.RangeResponse{Kvs: []*mvccpb.KeyValue{{Key: []byte(c.key), CreateRevision: ticket, Version: 1}}, Count: 1})
	}
	for i, step := range []struct {
		ticket int64
		want   engine.State
	}{{5, engine.Gone}, {9, engine.Held}, {9, engine.Held}, {7, engine.Gone}, {12, engine.Held}} {
		if got := all.report(c, all.promote(c, at(step.ticket))); got.State != step.want {
			t.Errorf("step %d: ticket %d is %v, want %v", i, step.ticket, got.State, step.want)
		}
	}
}

// Who finds itself in front is told so only with a proof that its session lives.
func TestTurnIsProven(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil) // no renewal interval comes in between
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	held := joins(t, other, exclusive("a"), engine.Held)
	mine := joins(t, e, exclusive("a"), engine.Waiting)
	unproven(e)
	w.counted()
	leave(t, other, held)
	receives(t, received, as(mine, engine.Held))
	if got := w.counted(); got["LeaseKeepAlive"] == 0 {
		t.Errorf("it asked for %v", got)
	}
}

// Waiting for a turn ends where etcd fails to answer: the next Renew begins it anew.
func TestRenewWaitsAnewForATurn(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	received := watch(t, e)
	held, ahead := joins(t, other, exclusive("a"), engine.Held), joins(t, other, exclusive("a"), engine.Waiting)
	mine := joins(t, e, exclusive("a"), engine.Waiting)
	w.fail("Range", status.Error(codes.Internal, "no answer"))
	leave(t, other, ahead)
	until(t, "the look has failed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.fails) == 0
	})
	until(t, "nobody waits for the turn", func() bool {
		e.table.mu.Lock()
		defer e.table.mu.Unlock()
		return e.table.m.Claims[mine.ID].attended == nil
	})
	if got := renew(t, e, mine); got.State != engine.Waiting {
		t.Fatalf("void: it is %v", got.State)
	}
	leave(t, other, held)
	receives(t, received, as(mine, engine.Held))
}

// Members are judged again at each connection that is made, but for those of judging.
func TestConnectionIsJudged(t *testing.T) {
	var c connections
	c.HandleConn(t.Context(), &stats.ConnBegin{}) // before there is an engine
	e := &Engine{judge: make(chan struct{}, 1)}
	c.engine.Store(e)
	if c.HandleConn(t.Context(), &stats.ConnEnd{}); len(e.judge) != 0 {
		t.Error("an end is taken for a beginning")
	}
	e.judging.Store(true)
	if c.HandleConn(t.Context(), &stats.ConnBegin{}); len(e.judge) != 0 {
		t.Error("judging begins judging")
	}
	e.judging.Store(false)
	if c.HandleConn(t.Context(), &stats.ConnBegin{}); len(e.judge) != 1 {
		t.Error("a connection is not judged")
	}
}

// That a session of before has ended says nothing of the next one.
func TestEndOfASessionOfBefore(t *testing.T) {
	e := &Engine{mail: mailbox.New(), life: t.Context()}
	e.table.start(e.mail.Post, func(*class) {})
	e.classes.Open = func(time.Duration) *lifeline { return &lifeline{id: 2, until: 7} }
	if _, err := e.use(time.Second); err != nil {
		t.Fatal(err)
	}
	if e.sessionEnded(1); now(e).id != 2 {
		t.Error("the next one is taken for ended")
	}
	if e.sessionEnded(2); now(e).id != 0 {
		t.Error("it goes on")
	}
}

// When the void key of a session of before was written says nothing of the next one's.
func TestVoidKeyOfASessionOfBefore(t *testing.T) {
	var e Engine
	s := &lifeline{id: 2, void: 5}
	if e.voidAt(s, 1, 7); s.void != 5 {
		t.Errorf("the void key of another session was written at %d", s.void)
	}
	if e.voidAt(s, 2, 3); s.void != 3 { // a backup was put back
		t.Errorf("its own was written at %d", s.void)
	}
}
