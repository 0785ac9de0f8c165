package servers

import (
	"context"
	"strings"
	"testing"
	"time"
)

func TestHostIsCutAndHealed(t *testing.T) {
	n := NewNetwork(t, "a", "b")
	a, b := n.Hosts[0], n.Hosts[1]
	r := Redis(t, &RedisOptions{Host: a})
	if !strings.HasPrefix(r.Addr, a.Addr+":") {
		t.Fatalf("it listens on %s", r.Addr)
	}
	reach := func(from *Host, bound time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		c, err := from.Dial(ctx, "tcp", r.Addr)
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := reach(b, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := a.Cut(); err != nil {
		t.Fatal(err)
	}
	if err := reach(b, 300*time.Millisecond); err == nil {
		t.Error("a host that was cut off is reached")
	}
	if err := reach(a, 10*time.Second); err != nil {
		t.Errorf("from the same host: %v", err)
	}
	if _, err := r.Do("PING"); err != nil {
		t.Errorf("the administrator's socket: %v", err)
	}
	if err := a.Heal(); err != nil {
		t.Fatal(err)
	}
	if err := reach(b, 10*time.Second); err != nil {
		t.Errorf("healed: %v", err)
	}
}
