package etcdlock

import (
	"context"
	"strings"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"leasehold/engine"
)

// A backup that is put back takes the store to an earlier time, under clients that
// live on. Keys of claims that have left come back, on a lease that its client still
// keeps alive, so that nobody gets past them; a slot holds the key of the claim that
// had it then; and without etcdutl's --bump-revision tickets begin again below those
// that were granted. So a client remembers which cluster answered and the highest
// revision of any answer, and
//
//   - takes no claim for its own whose ticket is not above all that it had seen when
//     it asked for it, nor one whose value is another's;
//   - after each loss of its connections, without which no backup can be put back,
//     deletes what hangs on its sessions and is no claim that it knows.
//
// Of what it did not see itself no client can know: a program that starts later
// begins below, unless the restore bumps the revision.

// past is what a client has seen of the store.
type past struct {
	mu      sync.Mutex
	cluster uint64
	now     int64 // the revision of late: falls with the store
	top     int64 // the highest
	moved   bool  // it went back, or is another
	said    error // the same, until it is told

	look chan struct{} // capacity 1: what stands is to be compared with what is known
}

// saw takes in the header of an answer to what was asked for at that revision. All
// answers are from one time or later, if the store never went back.
func (p *past) saw(h *pb.ResponseHeader, asked int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	moved := h.Revision < asked || p.cluster != 0 && h.ClusterId != p.cluster
	if p.cluster = h.ClusterId; moved {
		p.moved, p.now = true, h.Revision
		p.said = engine.Refuse("etcd went back from revision %d to %d: a backup was restored, or another cluster answers; "+
			"later claims are gone, and lower tokens are refused: restore with etcdutl's --bump-revision", asked, h.Revision)
		p.alarm()
	}
	p.now, p.top = max(p.now, h.Revision), max(p.top, h.Revision)
}

// atLeast: the store has come to that revision.
func (p *past) atLeast(revision int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.top = max(p.top, revision)
}

// alarm has it looked at what stands.
func (p *past) alarm() {
	select {
	case p.look <- struct{}{}:
	default: // it will be
	}
}

func (p *past) asked() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// floor: what is asked for from now on has a higher ticket.
func (p *past) highWater() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return uint64(p.top)
}

// wentBack reports whether the store went back since the last time.
func (p *past) wentBack() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	was := p.moved
	p.moved = false
	return was
}

// happened says once that the store went back.
func (p *past) happened() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.said
	p.said = nil
	return err
}

// fallen is the refusal of a ticket that is not above the high-water mark.
func (p *past) fallen(ticket, highWater uint64) error {
	return engine.Refuse("a backup was restored: this client has seen revision %d and etcd is at %d, so tokens would fall: "+
		"restore with etcdutl's --bump-revision, or restart the programs, and accept lower tokens", highWater, ticket)
}

// reconnects has it looked, for as long as the engine lives, whenever there was no
// connection to any member and there is one again.
func (e *Engine) reconnects(life context.Context) {
	conn := e.client.ActiveConnection()
	// There was one when the engine was opened: what is lost before this looks first is lost too.
	state := conn.GetState()
	for away := state != connectivity.Ready; ; state = conn.GetState() {
		if away && state == connectivity.Ready {
			away = false
			e.past.alarm()
			e.mayBeOthers()
		}
		if !conn.WaitForStateChange(life, state) {
			return
		}
		away = away || state == connectivity.Ready
	}
}

// compare looks, for as long as the engine lives, whenever it is asked for.
func (e *Engine) compare(life context.Context) {
	for {
		select {
		case <-life.Done():
			return
		case <-e.past.look:
		}
		if e.past.wentBack() {
			// A watch that the library goes on with waits for the revision at which it
			// was broken off.
			e.deafen()
		}
		ctx, cancel := context.WithTimeout(life, shared)
		err := e.deleteUnknown(ctx)
		cancel()
		if err != nil && e.pause(life, untidySoon) == nil {
			e.past.alarm() // once more
		}
	}
}

// deleteUnknown deletes what hangs on the sessions and is no claim that is known: keys
// come back with a backup, or are of a claim whose slot another has now. No Join of
// this client may make such a key, since what is asked for is known before it is sent.
func (e *Engine) deleteUnknown(ctx context.Context) error {
	for _, s := range e.lives() {
		if id := e.current(s).id; id != 0 {
			if err := e.deleteUnknownOf(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) deleteUnknownOf(ctx context.Context, session clientv3.LeaseID) error {
	r, err := e.client.TimeToLive(ctx, session, clientv3.WithAttachedKeys())
	if err != nil {
		return err
	}
	var reads []clientv3.Op
	for _, key := range r.Keys {
		if strings.HasPrefix(string(key), e.keys.prefix+"line/") {
			reads = append(reads, clientv3.OpGet(string(key)))
		}
	}
	for len(reads) > 0 {
		n := min(len(reads), maxOps)
		r, err := e.do(ctx, clientv3.OpTxn(nil, reads[:n], nil))
		if err != nil {
			return err
		}
		reads = reads[n:]
		var unknown []clientv3.Op
		for _, one := range r.Txn().Responses {
			for _, kv := range one.GetResponseRange().Kvs {
				if key := string(kv.Key); !e.table.knows(key, string(kv.Value)) {
					// Should this be late, another claim may have the key.
					unknown = append(unknown, clientv3.OpTxn([]clientv3.Cmp{
						clientv3.Compare(clientv3.CreateRevision(key), "=", kv.CreateRevision),
					}, []clientv3.Op{clientv3.OpDelete(key), clientv3.OpDelete(e.keys.notification(e.name, key))}, nil))
				}
			}
		}
		if len(unknown) > 0 {
			if _, err := e.do(ctx, clientv3.OpTxn(nil, unknown, nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// knows reports whether a key is that of a claim that is known.
func (t *table) knows(key, value string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.keyed[key]
	return c != nil && c.value == value
}
