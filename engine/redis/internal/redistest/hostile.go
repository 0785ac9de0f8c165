package redistest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

// Hostile makes every call on a name whose keys hold anything. None panics, none takes
// long, and an error refuses and names one of the keys, in words and not in those of a
// script. Keys: those that may be blamed, apart by blanks.
func Hostile(t testing.TB, e engine.Engine, name, keys string, ids []engine.ID, request func(limit int32) engine.Request, limits ...int32) {
	t.Helper()
	check := func(what string, err error) {
		t.Helper()
		if err == nil || errors.Is(err, engine.ErrNoClaim) {
			return
		}
		var limit *engine.LimitError
		if errors.As(err, &limit) {
			return
		}
		text := err.Error()
		named := slices.ContainsFunc(strings.Fields(keys), func(key string) bool { return strings.Contains(text, `"`+key+`"`) }) ||
			strings.Contains(text, `"`+keys+`"`) || strings.Contains(text, "are in the queue already") || strings.Contains(text, "hold already")
		if !errors.Is(err, engine.ErrRefused) || !named || strings.Contains(text, "script") {
			t.Errorf("%s: %v", what, err)
		}
	}
	l, err := e.Queue(Within(t), name)
	check("Line", err)
	for _, c := range l.Claims {
		if c.TTL < 0 {
			t.Errorf("a line with a TTL of %v", c.TTL)
		}
	}
	for _, err := range e.Queues(Within(t), "") {
		if err != nil {
			t.Errorf("Lines: %v", err)
		}
	}
	for _, limit := range limits {
		nowait, replaces := request(limit), request(limit)
		nowait.NoWait = true
		replaces.Replaces = ids[0]
		for what, q := range map[string]engine.Request{"Join": request(limit), "NoWait": nowait, "Replaces": replaces} {
			c, err := e.Join(Within(t), q)
			check(what, err)
			if err == nil && c.State == engine.Gone && !q.NoWait {
				t.Errorf("%s: it is Gone, and would be asked for again and again", what)
			}
			if c.TTL < 0 || c.PollAfter < 0 {
				t.Errorf("%s: TTL %v, Look %v", what, c.TTL, c.PollAfter)
			}
			if err == nil {
				_, err = e.Leave(Within(t), []engine.Claim{c})
				check("Leave", err)
			}
		}
	}
	for _, id := range ids {
		_, err := e.Renew(Within(t), []engine.Renewal{{Name: name, ID: id, Want: time.Second}})
		check("Renew", err)
	}
	for _, ticket := range []uint64{0, 1, engine.MaxTicket} {
		check("Evict", e.Revoke(Within(t), name, ticket, ticket != 1))
	}
	for _, id := range ids {
		_, err := e.Leave(Within(t), []engine.Claim{{Name: name, ID: id}})
		check("Leave", err)
	}
}
