package etcdlock

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/etcd/internal/order"
)

// keys is how names and claims are written below one prefix.
//
//	{prefix}line/{name}\x00{limit}/{units}/{client}/{id}    a claim; its value is the owner
//	{prefix}note/{client}/{id}                              a note to a claim's client
//	{prefix}void/{client}                                   written: that client's Joins under way are void
//
// A NUL ends the name, which has none, so that no name's line is in another's,
// and names keep their order and prefixes. The limit comes first, so that "nobody
// is in line with another limit" is two ranges that a transaction compares. Limit
// and units are eight hexadecimal digits, the ID 32. All that decides who holds is
// in the keys: lines are read without values.
type keys struct{ prefix string }

func (k keys) line(name string) string { return k.prefix + "line/" + name + "\x00" }

// limited begins the keys of a line's claims with that limit.
func (k keys) limited(name string, limit int32) string {
	return fmt.Sprintf("%s%08x/", k.line(name), limit)
}

func (k keys) claim(name string, limit, units int32, client string, id engine.ID) string {
	return fmt.Sprintf("%s%08x/%s/%s", k.limited(name, limit), units, client, id.Secret())
}

func (k keys) notes(client string) string { return k.prefix + "note/" + client + "/" }

func (k keys) void(client string) string { return k.prefix + "void/" + client }

func (k keys) note(client string, id engine.ID) string { return k.notes(client) + id.Secret() }

// place is a claim as its key shows it.
type place struct {
	key    string
	name   string
	limit  int32
	units  int32
	client string
	id     engine.ID
	ticket uint64           // the key's create revision
	lease  clientv3.LeaseID // ends it, if nobody leaves
	owner  []byte           // if values were read

	// evicted: the key was written again, which nobody does but Evict, to put a
	// holder on a lease that nobody keeps alive.
	evicted bool
}

// parse reads a key, and reports whether it is one of a claim.
func (k keys) parse(kv *mvccpb.KeyValue) (p place, ok bool) {
	rest, ok := strings.CutPrefix(string(kv.Key), k.prefix+"line/")
	if !ok {
		return place{}, false
	}
	name, rest, _ := strings.Cut(rest, "\x00")
	parts := strings.Split(rest, "/")
	if len(parts) != 4 {
		return place{}, false
	}
	limit, err1 := strconv.ParseUint(parts[0], 16, 31)
	units, err2 := strconv.ParseUint(parts[1], 16, 31)
	id, err3 := engine.ParseID(parts[3])
	if err1 != nil || err2 != nil || err3 != nil || units == 0 || units > limit {
		return place{}, false
	}
	return place{
		key: string(kv.Key), name: name, limit: int32(limit), units: int32(units), client: parts[2], id: id,
		ticket: uint64(kv.CreateRevision), lease: clientv3.LeaseID(kv.Lease), owner: kv.Value, evicted: kv.Version > 1,
	}, true
}

// line is the claims of one name, in order.
type line []place

func (k keys) read(kvs []*mvccpb.KeyValue) (l line) {
	for _, kv := range kvs {
		if p, ok := k.parse(kv); ok {
			l = append(l, p)
		}
	}
	// One transaction makes one claim, so no two have the same ticket.
	slices.SortFunc(l, func(a, b place) int { return cmp.Compare(a.ticket, b.ticket) })
	return l
}

func (l line) find(id engine.ID) int {
	return slices.IndexFunc(l, func(p place) bool { return p.id == id })
}

func (l line) units() []int32 {
	units := make([]int32, len(l))
	for i := range l {
		units[i] = l[i].units
	}
	return units
}

// held is how many hold. All agree on one limit: see Join.
func (l line) held() int {
	if len(l) == 0 {
		return 0
	}
	return order.Held(l.units(), l[0].limit)
}

// fits reports whether a claim that came now would hold.
func (l line) fits(units, limit int32) bool {
	all := append(l.units(), units)
	return order.Held(all, limit) == len(all)
}

// blockers are the keys of which one must leave before claim i can hold.
func (l line) blockers(i int) (keys []string) {
	for _, j := range order.Blockers(l.units(), i, l[i].limit) {
		keys = append(keys, l[j].key)
	}
	return keys
}
