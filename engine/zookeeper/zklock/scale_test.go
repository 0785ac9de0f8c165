package zklock

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/session"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A heartbeat is one request for two thousand claims, whatever their number.
func TestTenThousandLeasesAreAHandfulOfRequests(t *testing.T) {
	many := 10_000
	if testing.Short() {
		many = 4000
	}
	s := ownZooKeeper(t)
	a := open(t, on(s))
	a.notifications(t)
	rs := make([]engine.Renewal, many)
	var all sync.WaitGroup
	room := make(chan struct{}, 64)
	for i := range rs {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			r := exclusive(fmt.Sprintf("orders/%d/a-name-as-long-as-names-usually-are", i))
			rs[i] = engine.Renewal{Name: r.Name, ID: r.ID, Want: a.usual}
			if c, err := a.Join(within(t), a.lasts(r)); err != nil || c.State != engine.Held {
				t.Errorf("%v, %v", c.State, err)
			}
		})
	}
	all.Wait()
	a.promoted(t)
	a.wire.requests()
	a.wire.mu.Lock()
	a.wire.most = 0
	a.wire.mu.Unlock()
	start := time.Now()
	got, err := a.Renew(within(t), rs)
	if err != nil || len(got) != many {
		t.Fatal(len(got), err)
	}
	took := time.Since(start)
	for _, c := range got {
		if c.State != engine.Held {
			t.Fatalf("%s is %v", c.Name, c.State)
		}
	}
	sent := a.wire.requests()
	if len(sent) != 1 || sent[opMulti] != many/2000 {
		t.Errorf("one beat sent %v", sent)
	}
	if a.wire.most >= 1<<20 {
		t.Errorf("a request of %d bytes", a.wire.most)
	}
	t.Logf("%d leases: %v a beat, %d requests, the largest of %d bytes", many, took.Round(time.Millisecond), sent[opMulti], a.wire.most)
}

// What a hand-over costs does not depend on who else waits.
func TestRequestsOfAHandOver(t *testing.T) {
	s := zooKeeper(t)
	for _, permits := range []int32{engine.Max, 1} {
		limit := permits
		if permits == 1 {
			limit = 2
		}
		counts := map[int]map[int32]int{}
		for _, many := range []int{8, 40} {
			name := fmt.Sprint("x", permits, "-", many)
			clients := make([]client, many)
			received := make([]<-chan engine.Claim, many)
			line := make([]engine.Claim, many)
			var err error
			for i := range clients {
				clients[i] = open(t, on(s))
				received[i] = clients[i].notifications(t)
				line[i], err = clients[i].Join(within(t), clients[i].lasts(want(name, permits, limit)))
				if err != nil {
					t.Fatal(err)
				}
			}
			for i := range clients { // as after they have waited for some seconds
				clients[i].mu.Lock()
				c := clients[i].m.Claims[line[i].ID]
				clients[i].mu.Unlock()
				clients[i].claimant.promoted(c)
			}
			first := int(limit / permits) // to wait
			// The watches that joining left behind go off with the first change.
			clients[0].leave1(t, line[0])
			receive(t, received[first], heldNotification(line[first].ID))
			clients[1].promoted(t)
			for i := range clients {
				clients[i].promoted(t)
				clients[i].wire.requests()
			}
			clients[1].leave1(t, line[1])
			next := first + 1
			receive(t, received[next], heldNotification(line[next].ID))
			sum := map[int32]int{}
			for i := range clients {
				clients[i].promoted(t)
				for op, n := range clients[i].wire.requests() {
					sum[op] += n
				}
				delete(sum, opExists) // that of promoted
			}
			counts[many] = sum
			for _, c := range clients {
				c.Close()
			}
		}
		if a, b := fmt.Sprint(counts[8]), fmt.Sprint(counts[40]); a != b {
			t.Errorf("%d of %d: a hand-over before 8 costs %s, before 40 %s", permits, limit, a, b)
		}
		t.Logf("%d of %d: %v", permits, limit, counts)
	}
}

// promoted: nothing is under way any more at this client, nor to it of what others
// have done: a server tells of that before it answers.
func (c client) promoted(t *testing.T) {
	t.Helper()
	if _, _, err := c.link.conn.Exists("/"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it looks for ever", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.looks) > 0 {
			return false
		}
		for _, cl := range c.m.Claims {
			if len(cl.looking) > 0 || cl.Due != 0 || cl.Phase == session.Held {
				return false
			}
		}
		return true
	})
}
