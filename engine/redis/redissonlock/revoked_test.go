package redissonlock

import (
	"testing"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// A Join whose answer was lost is sent again. If somebody has revoked its claim meanwhile, a
// new one under the same ID would be told at its first renewal that it was revoked.
func TestARevokedClaimIsNotMadeAnew(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for _, k := range []redistest.Kit{locks, fenced, readWrite} {
		e := k.Opened(t, "redis://"+r.Addr)
		for _, mode := range []string{"exclusive", "reader"} {
			q := exclusive("again-" + mode)
			if mode == "reader" {
				if e.Guarantees().Modes&engine.Shared == 0 {
					continue
				}
				q = reader("again-" + mode)
			}
			first := join(t, e, q)
			if err := e.Revoke(within(t), q.Name, first.Ticket, true); err != nil {
				t.Fatal(err)
			}
			again, err := e.Join(within(t), q)
			if err != nil || again.State != engine.Gone || !again.Revoked {
				t.Errorf("%s: Join again: %+v, %v", mode, again, err)
			}
			if line, err := e.Queue(within(t), q.Name); err != nil || len(line.Claims) != 0 {
				t.Errorf("%s: %+v, %v", mode, line, err)
			}
		}
	}
}
