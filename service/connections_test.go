package service

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
)

// hanging is an engine whose Join of some names answers when its caller gives up.
type hanging struct {
	engine.Engine
	hang chan struct{} // gets a value for each
}

func (h *hanging) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if !strings.HasPrefix(r.Name, "hangs") {
		return h.Engine.Join(ctx, r)
	}
	h.hang <- struct{}{}
	<-ctx.Done()
	return engine.Claim{}, context.Cause(ctx)
}

// Joins that hang take every connection that Joins have, and renewals go on.
func TestCallsThatHangDelayNoRenewal(t *testing.T) {
	t.Parallel()
	h := &hanging{store(t).Engine(), make(chan struct{}, 1000)}
	_, url := serve(t, h, nil)
	e := client(t, url)
	defer e.Close()
	request := func(name string) engine.Request {
		return engine.Request{Name: name, ID: engine.NewID(), Permits: 1, Limit: 1, TTL: time.Minute, WaitTTL: time.Minute}
	}
	held := request("held")
	if c, err := e.Join(t.Context(), held); err != nil || c.State != engine.Held {
		t.Fatal(c, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i := range 200 {
		all.Go(func() { e.Join(ctx, request(fmt.Sprint("hangs", i))) })
	}
	for range 64 {
		<-h.hang
	}
	// The service bounds a call by its callBound: without a connection of its own, a renewal
	// would come after that.
	soon, cancelSoon := context.WithTimeout(t.Context(), callBound*9/10)
	defer cancelSoon()
	got, err := e.Renew(soon, []engine.Renewal{{Name: held.Name, ID: held.ID, Want: time.Minute}})
	if err != nil || len(got) != 1 || got[0].State != engine.Held {
		t.Errorf("got %v, %v, want the renewed claim", got, err)
	}
}
