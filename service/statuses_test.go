package service

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"leasehold/engine"
)

// limping is an engine that lacks what a test says, and can be away.
type limping struct {
	engine.Engine
	grants engine.Guarantees
	away   atomic.Bool
}

var errAway = errors.New("the engine is away")

func (l *limping) Guarantees() engine.Guarantees { return l.grants }

func (l *limping) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if l.away.Load() {
		return engine.Claim{}, errAway
	}
	return l.Engine.Join(ctx, r)
}

func (l *limping) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if l.away.Load() {
		return nil, errAway
	}
	return l.Engine.Renew(ctx, rs)
}

func (l *limping) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if l.away.Load() {
		return nil, errAway
	}
	return l.Engine.Leave(ctx, cs)
}

func (l *limping) Queue(ctx context.Context, name string) (engine.Queue, error) {
	if l.away.Load() {
		return engine.Queue{}, errAway
	}
	return l.Engine.Queue(ctx, name)
}

func (l *limping) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	if l.away.Load() {
		return func(yield func(engine.Queue, error) bool) { yield(engine.Queue{}, errAway) }
	}
	return l.Engine.Queues(ctx, prefix)
}

func (l *limping) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	if l.away.Load() {
		return errAway
	}
	return l.Engine.Revoke(ctx, name, ticket, now)
}

func limp(t *testing.T) *limping {
	inner := store(t).Engine()
	return &limping{Engine: inner, grants: inner.Guarantees()}
}

// What an engine does not have is 501: asking again cannot help, and nothing is wrong with
// the request.
func TestWhatTheEngineLacksIsSaid(t *testing.T) {
	e := limp(t)
	e.grants.Modes, e.grants.SeesWaiters = engine.Exclusive, false
	_, base := plainly(t, e, nil)
	for what, r := range map[string]reply{
		"shared": send(t, "POST", base+"/v1/locks/a", `{"shared": true}`),
		"why":    send(t, "GET", base+"/v1/why/a", ""),
	} {
		if r.status != http.StatusNotImplemented || r.Error == "" {
			t.Errorf("%s: %d %s, want 501", what, r.status, r.text)
		}
	}
}

// While the engine is away every request that needs it says 503, and none says more.
func TestAnEngineThatIsAwayProvesNothing(t *testing.T) {
	t.Parallel()
	e := limp(t)
	_, base := plainly(t, e, nil)
	held := send(t, "POST", base+"/v1/locks/a", `{}`)
	held.want(t, 200, "held")
	e.away.Store(true)
	for what, r := range map[string]reply{
		"lock":    send(t, "POST", base+"/v1/locks/b", `{}`),
		"renew":   send(t, "PUT", base+"/v1/locks/a", ``, bearer(held)...),
		"release": send(t, "DELETE", base+"/v1/locks", ``, bearer(held)...),
		"queues":  send(t, "GET", base+"/v1/queues", ``),
		"queue":   send(t, "GET", base+"/v1/queues/a", ``),
		"why":     send(t, "GET", base+"/v1/why?name=a", ``),
		"revoke":  send(t, "POST", base+"/v1/revoke", `{"name": "a", "ticket": "1"}`),
		"ready":   send(t, "GET", base+"/readyz", ``),
	} {
		if r.status != http.StatusServiceUnavailable || !strings.Contains(r.Error, "away") {
			t.Errorf("%s: %d %s, want 503", what, r.status, r.text)
		}
	}
}
