package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
)

func TestWhatIsNoNameIsRefused(t *testing.T) {
	for name, why := range map[string]string{
		"":                                     "empty",
		strings.Repeat("x", engine.MaxName+1):  "513 bytes",
		"\xff":                                 "UTF-8",
		"a\xc3":                                "UTF-8",
		"\x00":                                 "NUL",
		"a\x00b":                               "NUL",
		"a\x00":                                "NUL",
		strings.Repeat("x", engine.MaxName):    "",
		" ":                                    "",
		"\n":                                   "",
		"../{a}%2f\\*?" + "\u00e9" + "e\u0301": "",
	} {
		err := engine.CheckName(name)
		switch {
		case why == "" && err != nil:
			t.Errorf("%q: %v", name, err)
		case why != "" && (!errors.Is(err, engine.ErrName) || !strings.Contains(err.Error(), why)):
			t.Errorf("%q: %v does not say %q", name, err, why)
		}
	}
}

func TestRequestsThatNoEngineMayAcceptAreRefused(t *testing.T) {
	id := engine.NewID()
	for why, change := range map[string]func(*engine.Request){
		"":                      func(*engine.Request) {},
		"is empty":              func(r *engine.Request) { r.Name = "" },
		"claim ID is empty":     func(r *engine.Request) { r.ID = engine.ID{} },
		"limit 0 is below 1":    func(r *engine.Request) { r.Permits, r.Limit = 0, 0 },
		"0 permits are outside": func(r *engine.Request) { r.Permits = 0 },
		"4 permits are outside": func(r *engine.Request) { r.Permits = 4 },
		"exclude each other":    func(r *engine.Request) { r.NoWait, r.Replaces = true, engine.NewID() },
		"replace itself":        func(r *engine.Request) { r.Replaces = id },
		"the owner has":         func(r *engine.Request) { r.Owner.Label = strings.Repeat("x", engine.MaxOwner) },
		"TTL 99.999999ms is":    func(r *engine.Request) { r.WaitTTL = engine.MinTTL - 1 },
		"TTL 24h0m0.000000001":  func(r *engine.Request) { r.WaitTTL = engine.MaxTTL + 1 },
		"TTL 1ns is outside":    func(r *engine.Request) { r.TTL = 1 },
	} {
		r := engine.Request{Name: "x", ID: id, Permits: 3, Limit: 3, WaitTTL: engine.MinTTL}
		change(&r)
		err := r.Check()
		switch {
		case why == "" && err != nil:
			t.Error(err)
		case why != "" && (!errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), why)):
			t.Errorf("%v does not say %q", err, why)
		}
	}
}

// A TTL is granted as it was asked for, or refused: only a first lifetime is raised.
func TestTTLsThatAnEngineDoesNotGrantAreRefused(t *testing.T) {
	g := engine.Guarantees{Modes: engine.Exclusive, MinTTL: time.Second, MaxTTL: time.Minute}
	for _, c := range []struct {
		first, ttl time.Duration
		refused    bool
	}{
		{time.Millisecond, 0, false}, {time.Millisecond, time.Second, false}, {time.Second, time.Minute, false},
		{time.Second, time.Second - 1, true}, {time.Second, time.Minute + 1, true}, {time.Minute + 1, 0, true},
	} {
		r := engine.Request{Name: "x", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: c.first, TTL: c.ttl}
		if err := g.Check(&r); errors.Is(err, engine.ErrRefused) != c.refused {
			t.Errorf("WaitTTL %v, TTL %v: %v", c.first, c.ttl, err)
		}
	}
}
