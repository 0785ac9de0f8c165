package redlock

import (
	"testing"
	"time"

	"leasehold/lab/servers"
)

// TestExamineClocks: the clock of one master is set two minutes ahead.
func TestExamineClocks(t *testing.T) {
	t.Parallel()
	clock := servers.ShiftedClock(t)
	ahead := servers.Redis(t, &servers.RedisOptions{Env: clock.Env(), Durable: true})
	at := append(addrs(masters(t, 2, nil)), ahead.Addr)
	examinedAt(t, "", at...).None(t, "the clocks of the masters disagree")
	if err := clock.Set(2 * time.Minute); err != nil {
		t.Fatal(err)
	}
	examinedAt(t, "", at...).Want(t, warning, "the clocks of the masters disagree", ahead.Addr+" is ", "ahead of "+at[0], "ahead of "+at[1])
}
