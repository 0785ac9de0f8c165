package formats

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/lab/servers"
)

// revisions is an etcd: an item is a key, the seconds of its lease, and its value, in the order
// in which they were made, by which claims are served.
type revisions struct{ *clientv3.Client }

func etcd(t *testing.T) (string, store) {
	s := servers.Etcd(t, nil)
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return "etcd://" + s.Addr, revisions{c}
}

func (r revisions) dump(t *testing.T) (all []item) {
	t.Helper()
	got, err := r.Get(within(t), "", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		if strings.Contains(string(kv.Key), "/note/") {
			continue // a message to a living client, which may have read it
		}
		lease, err := r.TimeToLive(within(t), clientv3.LeaseID(kv.Lease))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, item{string(kv.Key), strconv.FormatInt(lease.GrantedTTL, 10), string(kv.Value)})
	}
	return all
}

func (r revisions) wipe(t *testing.T) {
	if _, err := r.Delete(within(t), "", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
}

func (r revisions) fill(t *testing.T, all []item) {
	t.Helper()
	for _, one := range all {
		seconds, err := strconv.ParseInt(one[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := r.Grant(within(t), seconds)
		if err == nil {
			_, err = r.Put(within(t), one[0], one[2], clientv3.WithLease(lease.ID))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// paths is a ZooKeeper: an item is a path, whether a session owns it, and its data.
type paths struct{ *zk.Conn }

func zookeeper(params string) func(t *testing.T) (string, store) {
	return func(t *testing.T) (string, store) {
		s := servers.ZooKeeper(t, &servers.ZooKeeperOptions{Tick: time.Second}) // sessions outlive a standstill of two seconds
		c, events, err := zk.Connect([]string{s.Addr}, time.Minute, zk.WithLogInfo(false))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for range events {
			}
		}()
		t.Cleanup(c.Close)
		if _, err := c.Create("/locks", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		return "zookeeper://" + s.Addr + "/locks" + params, paths{c}
	}
}

// below visits the nodes below a path, parents first.
func (p paths) below(t *testing.T, path string, visit func(path string, data []byte, s *zk.Stat)) {
	t.Helper()
	children, _, err := p.Children(cmp.Or(path, "/"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(children, func(a, b string) int {
		return cmp.Or(strings.Compare(a[max(0, len(a)-10):], b[max(0, len(b)-10):]), strings.Compare(a, b))
	})
	for _, child := range children {
		at := path + "/" + child
		if at == "/zookeeper" {
			continue
		}
		data, stat, err := p.Get(at)
		if err != nil {
			t.Fatal(err)
		}
		visit(at, data, stat)
		if stat.EphemeralOwner == 0 {
			p.below(t, at, visit)
		}
	}
}

func (p paths) dump(t *testing.T) (all []item) {
	t.Helper()
	p.below(t, "", func(path string, data []byte, s *zk.Stat) {
		if strings.Contains(path, "%session-") {
			return // each client's own, by the number that the server gave its session
		}
		owner := "kept"
		if s.EphemeralOwner != 0 {
			owner = "session"
		}
		all = append(all, item{path, owner, string(data)})
	})
	return all
}

func (p paths) wipe(t *testing.T) {
	t.Helper()
	var all []string
	p.below(t, "/locks", func(path string, _ []byte, s *zk.Stat) {
		if !strings.Contains(path, "%session-") {
			all = append(all, path)
		}
	})
	slices.Reverse(all)
	for _, path := range all {
		if err := p.Delete(path, -1); err != nil {
			t.Fatal(err)
		}
	}
}

func (p paths) fill(t *testing.T, all []item) {
	t.Helper()
	for _, one := range all {
		flags := int32(0)
		if one[1] == "session" {
			flags = zk.FlagEphemeral
		}
		if _, err := p.Create(one[0], []byte(one[2]), flags, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
			t.Fatalf("%s: %v", one[0], err)
		}
	}
}
