package redis_test

import (
	"testing"

	"leasehold"
	"leasehold/lab/servers"
)

// While a fleet changes over to queues, programs that hold both send the token of the queue. It
// is above what those with the old lock alone sent before, and below what they send later.
func TestTokensRiseWhileAFleetChangesOverToQueues(t *testing.T) {
	r := servers.Redis(t, nil)
	locks := func(url string) *leasehold.Client {
		c, err := leasehold.New(open(t, url), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	hold := func(c *leasehold.Client) *leasehold.Lease {
		t.Helper()
		l, err := c.Lock(within(t), "import")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	release := func(l *leasehold.Lease) {
		t.Helper()
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
	}
	queues, newer := locks("redis://"+r.Addr), locks("redis://"+r.Addr)
	for name, url := range map[string]string{
		"plain keys": "redis://" + r.Addr + "?layout=plain",
		"Redisson":   "redisson://" + r.Addr + "?kind=fenced",
	} {
		t.Run(name, func(t *testing.T) {
			older, old := locks(url), locks(url)
			var sent []leasehold.Token
			send := func(l *leasehold.Lease) { sent = append(sent, l.Token()) }

			first := hold(older)
			send(first)
			release(first)

			p := hold(old)
			l := hold(queues)
			send(l)
			release(l)
			release(p)

			last := hold(older)
			send(last)
			release(last)

			p = hold(old)
			alone := hold(newer) // it comes between
			send(alone)
			release(alone)
			l = hold(queues)
			send(l)
			release(l)
			release(p)
			for i := 1; i < len(sent); i++ {
				if sent[i] <= sent[i-1] || sent[i].Ticket() <= sent[i-1].Ticket() {
					t.Errorf("the resource refuses %v: it has seen %v", sent[i], sent[i-1])
				}
			}
		})
	}
}
