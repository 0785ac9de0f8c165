package etcdlock

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// Whatever stands below the prefix, a queue is read without a panic, is in order, and
// every claim of it either holds or waits for one that is ahead.
func FuzzQueue(f *testing.F) {
	k := keys{"p/"}
	good := k.claim("x", 3, 1, "c", 0)
	f.Add([]byte(good), []byte(value(engine.NewID(), "owner")), []byte(k.claim("x", 2, 2, "c", 1)), int64(1), int64(2), int64(7))
	f.Add([]byte("p/line/x\x00zz"), []byte{0xff}, []byte("p/line/x\x000000000a/0000000A/c/007"), int64(-1), int64(-1), int64(0))
	f.Fuzz(func(t *testing.T, one, val, other []byte, first, second, version int64) {
		l := k.read(&pb.RangeResponse{Count: -1, Kvs: []*mvccpb.KeyValue{
			{Key: one, Value: val, CreateRevision: first, Version: version, Lease: first},
			{Key: other, Value: val, CreateRevision: second, Version: 1},
			{Key: []byte(good), Value: val, CreateRevision: 5, Version: 1},
		}})
		for i, p := range l.places {
			if k.claim(p.name, p.limit, p.permits, p.client, slotOf(p.key)) != p.key {
				t.Fatalf("%q reads as %+v", p.key, p)
			}
			if i > 0 && l.places[i-1].ticket > p.ticket {
				t.Fatalf("not in order: %+v", l.places)
			}
			_ = l.blockers(i)
			_ = engine.ParseOwner(p.owner)
		}
		_ = l.fits(1, 1)
		c := &claim{key: good}
		var all table
		all.start(func(engine.Claim) {}, func(*class) {})
		_ = all.report(c, all.promote(c, l))
		e := &Engine{keys: k}
		_ = e.view("x", l, nil)
		e.table.start(func(engine.Claim) {}, func(*class) {})
		e.table.keyed = map[string]*claim{good: c}
		e.receive(&mvccpb.KeyValue{Key: one, Value: val})
		e.receive(&mvccpb.KeyValue{Key: []byte(k.notification("", good)), Value: val})
	})
}

func slotOf(key string) (slot int) {
	_, _ = fmt.Sscan(key[strings.LastIndexByte(key, '/')+1:], &slot)
	return slot
}

// Keys of others in a queue: Joins are refused in words, at once, and other names go on.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	k := e.keys
	for name, c := range map[string]struct {
		key, value string
		nowait     bool
		want       string // of a refusal
	}{
		"junk":                         {key: "00junk", want: "keys of another program"},
		"junk of no wait":              {key: "00junk", nowait: true, want: "keys of another program"},
		"binary":                       {key: "\x01\xfe\x00", value: "\x00\xff", want: "keys of another program"},
		"huge":                         {key: "0", value: strings.Repeat("x", 1<<20), want: "keys of another program"},
		"a limit of zero":              {key: "00000000/00000000/c/0", want: "keys of another program"},
		"another way to write a claim": {key: "7FFFFFFF/7fffffff/c/0", want: "keys of another program"},
		"a claim without a lease":      {key: "7fffffff/7fffffff/c/0", value: "x", want: "has no lease"},
		"a reader without a lease":     {key: "7fffffff/00000001/c/0", value: "x", want: "has no lease"},
		"another limit":                {key: "00000003/00000001/c/0", value: "x", want: "limit"},
		"more permits than the limit":  {key: "00000003/00000004/c/0", want: "keys of another program"},
		"junk behind the limit":        {key: "7fffffff/junk"}, // no claim, and in nobody's way
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := w.Put(within(t), k.line(name)+c.key, c.value); err != nil {
				t.Fatal(err)
			}
			r := exclusive(name)
			r.NoWait = c.nowait
			got, err := e.Join(within(t), r)
			var limit *engine.LimitError
			switch {
			case c.want == "" && (err != nil || got.State != engine.Held):
				t.Errorf("%v, %v", got.State, err)
			case c.want == "limit" && !errors.As(err, &limit):
				t.Errorf("%v, want another limit", err)
			case c.want != "" && c.want != "limit" && (!errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, want a refusal that says %q", err, c.want)
			}
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if _, err := e.Queue(within(t), name); err != nil {
				t.Errorf("Queue: %v", err)
			}
			if c.want != "" {
				n, err := w.Get(within(t), k.line(name), clientv3.WithPrefix(), clientv3.WithCountOnly())
				if err != nil || n.Count != 1 {
					t.Errorf("%d keys are left, %v", n.Count, err)
				}
			}
			leave(t, e, joins(t, e, exclusive("other than "+name), engine.Held))
		})
	}
	for _, err := range e.Queues(within(t), "") {
		if err != nil {
			t.Error(err)
		}
	}
}

// A key of another program with another limit stands behind a living claim: a Join that is
// refused because of it says which limit that is.
func TestAnotherLimitBehindAClaimIsNamed(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	joins(t, e, exclusive("a"), engine.Held)
	lease, err := w.Grant(within(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Put(within(t), e.keys.line("a")+"00000003/00000001/c/0", "x", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	_, err = e.Join(within(t), exclusive("a"))
	if limit, is := errors.AsType[*engine.LimitError](err); !is || limit.Have != 3 {
		t.Errorf("%v, want one that names the limit 3", err)
	}
}

// Nested prefixes would be one queue for two names.
func TestNestedPrefixes(t *testing.T) {
	for prefix, ok := range map[string]bool{
		"a/": true, "a/timeline/": true, "lines/": true, "a/b/": true,
		"a": false, "a/line/": false, "line/": false, "a/line/x/": false, "a/note/": false, "void/x/": false,
	} {
		if _, err := (&Options{Prefix: prefix}).check(); (err == nil) != ok {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	// What two prefixes that are accepted have cannot meet: whatever follows the shorter
	// one in the longer is no queue of it.
	one, other := keys{"a/"}, keys{"a/b/"}
	for _, name := range []string{"x", "b/line/x", "line/x"} {
		if strings.HasPrefix(other.line("x"), one.line(name)[:len(one.line(name))-1]) {
			t.Errorf("%q is below %q", other.line("x"), one.line(name))
		}
	}
}
