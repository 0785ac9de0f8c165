package main

import (
	"strings"
	"testing"

	"leasehold/engine"
)

func TestRequireReadsEveryWord(t *testing.T) {
	for text, want := range map[string]engine.Guarantees{
		"":                              {},
		" fencing , ,":                  {Fencing: engine.FencingMemory},
		"cluster,machine":               {Scope: engine.ScopeCluster},
		"machine,cluster":               {Scope: engine.ScopeCluster},
		"machine":                       {Scope: engine.ScopeMachine},
		"shared,semaphore":              {Modes: engine.Shared | engine.Permits},
		"fifo,detach,waiters":           {Order: engine.FIFO, Detach: true, SeesWaiters: true},
		"no-double-grant,crash-release": {Failover: engine.FailoverNone, CrashRelease: engine.CrashSession},
	} {
		if got, err := parseRequire(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	_, err := parseRequire("cluster,magic")
	if err == nil || !strings.Contains(err.Error(), `"magic"`) || !strings.Contains(err.Error(), "no-double-grant") {
		t.Errorf("the error does not say what is unknown and what is known: %v", err)
	}
}
