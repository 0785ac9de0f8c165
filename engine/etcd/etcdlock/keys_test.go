package etcdlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// A key says what it was made of, lies in its name's queue and in no other's, and
// in the part of its limit alone.
func TestKeys(t *testing.T) {
	k := keys{"a/prefix/"}
	name := rapid.StringN(1, 40, engine.MaxName).Filter(func(s string) bool { return engine.CheckName(s) == nil })
	number := rapid.Int32Range(1, engine.Max)
	in := func(key, prefix string) bool { return key >= prefix && key < clientv3.GetPrefixRangeEnd(prefix) }
	rapid.Check(t, func(t *rapid.T) {
		one, other := name.Draw(t, "name"), name.Draw(t, "other")
		limit, another := number.Draw(t, "limit"), number.Draw(t, "another limit")
		permits := rapid.Int32Range(1, limit).Draw(t, "units")
		id := engine.NewID()
		key := k.claim(one, limit, permits, "client", 12)
		p, ok := k.parse(&mvccpb.KeyValue{Key: []byte(key), Value: []byte(value(id, "owner")), CreateRevision: 7, Lease: 8, Version: 1})
		if !ok || p.name != one || p.limit != limit || p.permits != permits || p.client != "client" || p.id != id || p.owner != "owner" || p.ticket != 7 || p.lease != 8 || p.revoked {
			t.Fatalf("%q reads as %+v, %v", key, p, ok)
		}
		if in(key, k.line(other)) != (one == other) {
			t.Fatalf("%q is in the queue of %q", key, other)
		}
		if in(key, k.limited(one, another)) != (limit == another) {
			t.Fatalf("%q is among those of limit %d", key, another)
		}
		if notification := k.notification("client", key); k.recorded("client", notification) != key || !in(notification, k.notifications("client")) {
			t.Fatalf("%q is noted at %q", key, notification)
		}
		if !strings.HasPrefix(key, k.prefix+"line/"+one) {
			t.Fatalf("%q does not begin with its name", key)
		}
	})
	for _, foreign := range []string{"", "a/prefix/", "a/prefix/line/x", "a/prefix/line/x\x001/2/3", "a/prefix/line/x\x00zz/1/c/0", "elsewhere",
		"a/prefix/line/x\x0000000003/00000001/c/x",
		"a/prefix/line/x\x0000000003/00000000/c/1", // no permits
		"a/prefix/line/x\x0000000003/00000004/c/1", // more than the limit
	} {
		if p, ok := k.parse(&mvccpb.KeyValue{Key: []byte(foreign)}); ok {
			t.Errorf("%q reads as %+v", foreign, p)
		}
	}
}

func TestEnough(t *testing.T) {
	const until = 10 * time.Second
	for name, c := range map[string]struct {
		start, ttl time.Duration
		gone, ok   bool
	}{
		"just enough":                     {start: time.Second, ttl: 9 * time.Second, ok: true},
		"asked too early for what it got": {start: time.Second, ttl: 8 * time.Second},
		"it has ended":                    {start: 20 * time.Second, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := enough(c.start, c.ttl, until)
			if errors.Is(err, errLeaseGone) != c.gone || (err == nil) != c.ok {
				t.Errorf("%v", err)
			}
		})
	}
}

// More queues than are read at a time are shown once each, and so is each claim.
func TestQueuesOfSeveralReadings(t *testing.T) {
	t.Parallel()
	w := dial(t, clientv3.Config{}, servers.Etcd(t, nil).Addr)
	e := start(t, w.Client, nil)
	var puts []clientv3.Op
	for i := range queuesAtOnce + 10 {
		puts = append(puts, clientv3.OpPut(e.keys.claim(fmt.Sprintf("n%05d", i), 1, 1, "c", 0), "x"))
	}
	for some := range slices.Chunk(puts, maxOps) {
		if _, err := w.Txn(within(t)).Then(some...).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	shown := 0
	for q, err := range e.Queues(within(t), "n") {
		if want := fmt.Sprintf("n%05d", shown); err != nil || q.Name != want || len(q.Claims) != 1 {
			t.Fatalf("shown are %q with %d claims, %v; want %q with one", q.Name, len(q.Claims), err, want)
		}
		shown++
	}
	if shown != len(puts) {
		t.Errorf("%d queues are shown of %d", shown, len(puts))
	}
}
