package etcdlock

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold/engine"
	"leasehold/engine/etcd/internal/order"
	"leasehold/engine/internal/session"
)

// keys is how names and claims are written below one prefix.
//
//	{prefix}line/{name}\x00{limit}/{permits}/{client}/{slot}   a claim; its value is the ID and the owner
//	{prefix}note/{client}/{name}\x00{limit}/...{slot}            a notification to that claim's client
//	{prefix}void/{client}                                     written: that client's Joins under way are void
//
// A NUL ends the name, which has none, so that no name's queue is in another's,
// and names keep their order and prefixes. The limit comes first, so that "nobody
// is in the queue with another limit" is two ranges that a transaction compares. Limit
// and permits are eight hexadecimal digits. All that decides who holds is in the keys:
// queues are read without values.
//
// A slot is a number that a client uses again when its claim has gone: etcd passes
// over every key that ever was in a range, until it is compacted. With a key for
// each claim, which its ID would make, a name that had been locked 100,000 times took
// 30 ms to lock. So a key alone does not tell a claim: key and create revision do, or
// the ID in the value.
type keys struct{ prefix string }

func (k keys) line(name string) string { return k.prefix + "line/" + name + "\x00" }

// limited begins the keys of a queue's claims with that limit.
func (k keys) limited(name string, limit int32) string {
	return fmt.Sprintf("%s%08x/", k.line(name), limit)
}

func (k keys) claim(name string, limit, permits int32, client string, slot int) string {
	return fmt.Sprintf("%s%08x/%s/%d", k.limited(name, limit), permits, client, slot)
}

func value(id engine.ID, owner string) string { return id.Secret() + owner }

// secretLen is how long an ID is in a value.
const secretLen = 32

func (k keys) notifications(client string) string { return k.prefix + "note/" + client + "/" }

func (k keys) void(client string) string { return k.prefix + "void/" + client }

// notification is where a claim's client hears of it.
func (k keys) notification(client, claim string) string {
	return k.notifications(client) + strings.TrimPrefix(claim, k.prefix+"line/")
}

// noted is the key of the claim that a notification to this client is about.
func (k keys) recorded(client, notification string) string {
	return k.prefix + "line/" + strings.TrimPrefix(notification, k.notifications(client))
}

// place is a claim as its key shows it.
type place struct {
	key     string
	name    string
	limit   int32
	permits int32
	client  string
	ticket  uint64           // the key's create revision
	lease   clientv3.LeaseID // ends it, if nobody leaves
	written int64            // the key's last revision

	// If values were read.
	id    engine.ID
	owner string

	// revoked: the key was written again by Revoke, to put a holder on a lease that nobody
	// keeps alive. Its own client writes it to attach it to another lease of its session.
	revoked bool
}

// parse reads a key, and reports whether it is one of a claim: exactly as claim
// writes it. Whatever else stands there is another program's.
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
	permits, err2 := strconv.ParseUint(parts[1], 16, 31)
	slot, err3 := strconv.ParseUint(parts[3], 10, 31)
	if err1 != nil || err2 != nil || err3 != nil || permits == 0 || permits > limit || limit > engine.Max ||
		engine.CheckName(name) != nil || k.claim(name, int32(limit), int32(permits), parts[2], int(slot)) != string(kv.Key) {
		return place{}, false
	}
	p = place{
		key: string(kv.Key), name: name, limit: int32(limit), permits: int32(permits), client: parts[2],
		ticket: uint64(kv.CreateRevision), lease: clientv3.LeaseID(kv.Lease), written: kv.ModRevision,
		revoked: kv.Version > 1 && !isSession(clientv3.LeaseID(kv.Lease)),
	}
	if len(kv.Value) >= secretLen {
		p.owner = string(kv.Value[secretLen:])
		p.id, _ = engine.ParseID(string(kv.Value[:secretLen])) // else nobody's
	}
	return p, true
}

// queue is the claims of one name, in order: all, or those up to one of them.
type line struct {
	places  []place
	permits []int32 // theirs
	held    int     // how many of them hold; all agree on one limit: see Join
	more    bool    // somebody is behind them
}

func (k keys) read(r *pb.RangeResponse) line {
	places := make([]place, 0, len(r.Kvs))
	for _, kv := range r.Kvs {
		if p, ok := k.parse(kv); ok {
			places = append(places, p)
		}
	}
	l := inOrder(places)
	l.more = r.Count > int64(len(r.Kvs)) // of which etcd says how many there are
	return l
}

func inOrder(places []place) line {
	// One transaction makes one claim, so no two have the same ticket.
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.ticket, b.ticket) })
	l := line{places: places}
	for i := range places {
		l.permits = append(l.permits, places[i].permits)
	}
	if len(places) > 0 {
		l.held = order.Held(l.permits, places[0].limit)
	}
	return l
}

// at is where one of this client's claims stands, or -1: by its key, which is no other's
// as long as the claim is known. In time that hardly grows with the queue where its ticket
// is known.
func (l line) at(c *claim) int {
	return l.find(c.key, c.Ticket)
}

func (l line) find(key string, ticket uint64) int {
	i, found := slices.BinarySearchFunc(l.places, ticket, func(p place, t uint64) int { return cmp.Compare(p.ticket, t) })
	if found && l.places[i].key == key {
		return i
	}
	return slices.IndexFunc(l.places, func(p place) bool { return p.key == key })
}

// with is where the claim with that ID stands, or -1, in a queue that was read with values.
func (l line) with(id engine.ID) int {
	return slices.IndexFunc(l.places, func(p place) bool { return p.id == id })
}

// elsewhere reports whether a detached claim stands by another client's key, before its own.
func (l line) elsewhere(c *claim) bool {
	if !c.Detached { // in a crowd there are many of these
		return false
	}
	i := l.with(c.ID)
	return i >= 0 && l.places[i].key != c.key
}

// contended reports whether somebody waits.
func (l line) contended() bool { return l.more || l.held < len(l.places) }

// fits reports whether a claim that came now would hold.
func (l line) fits(permits, limit int32) bool {
	all := append(slices.Clone(l.permits), permits)
	return order.Held(all, limit) == len(all)
}

// blockers are the claims of which one must leave before claim i can hold.
func (l line) blockers(i int) (ahead []session.Node) {
	if i < l.held {
		return nil
	}
	for _, j := range order.Blockers(l.permits, i, l.places[i].limit) {
		ahead = append(ahead, l.places[j].node())
	}
	return ahead
}

func (p *place) node() session.Node { return session.Node{Key: p.key, Ticket: p.ticket} }

// standing is a question for a claim's key, and stood says of the answer whether
// the claim stood: not another that has its key since.
func standing(n session.Node) clientv3.Op { return clientv3.OpGet(n.Key, clientv3.WithKeysOnly()) }

func stood(n session.Node, answer *pb.RangeResponse) bool {
	return len(answer.Kvs) == 1 && uint64(answer.Kvs[0].CreateRevision) == n.Ticket
}

// stands is the same as a condition.
func stands(n session.Node) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(n.Key), "=", int64(n.Ticket))
}
