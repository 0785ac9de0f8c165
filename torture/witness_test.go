package torture

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"leasehold/engine"
	"leasehold/fence"
	"leasehold/torture/history"
)

// A mark counts only if the client saw its lease valid after the stamp, and the history is
// in the order of the stamps.
func TestAMarkCountsOnceItIsConfirmed(t *testing.T) {
	var text bytes.Buffer
	out := bufio.NewWriter(&text)
	w := newWitness(out, func(err error) { t.Error(err) })
	c := &client{w: w, name: "c1", marks: map[int64]*entry{}, pings: map[int64]chan struct{}{}}
	mark := func(ask, op int64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.eventLocked(c, &said{Ask: ask, Event: &history.Event{Kind: history.Mark, Op: op}}, &told{})
	}
	w.record(history.Event{Kind: history.Start, Client: "first"})
	mark(1, 11)
	mark(2, 12)
	w.record(history.Event{Kind: history.Start, Client: "second"})
	out.Flush()
	if got := text.String(); !strings.Contains(got, "first") || strings.Contains(got, "second") {
		t.Errorf("before an answer there is %s", got)
	}
	w.heard(c, `{"mark":2,"valid":true}`)
	w.heard(c, `{"mark":1,"valid":false}`)
	mark(3, 13)
	w.record(history.Event{Kind: history.Start, Client: "third"})
	out.Flush()
	if got := text.String(); strings.Contains(got, `"op":11`) || !strings.Contains(got, `"op":12`) || !strings.Contains(got, "second") || strings.Contains(got, "third") {
		t.Errorf("after two answers there is %s", got)
	}
}

// The rule of the fenced resource is that of package fence.
func TestTheFencedResourceRefusesLateTokens(t *testing.T) {
	w := newWitness(bufio.NewWriter(&bytes.Buffer{}), func(err error) { t.Error(err) })
	serve := func(kind history.Kind, resource string, token uint64, value int64, shared bool) history.Event {
		e := history.Event{Kind: kind, Name: "n", Resource: resource, Token: token, Value: value}
		w.serveLocked(&e, shared)
		return e
	}
	for _, c := range []struct {
		kind     history.Kind
		resource string
		token    uint64
		value    int64
		shared   bool
		stale    bool
		now      int64
	}{
		{history.Write, history.Fenced, 5, 1, false, false, 1},
		{history.Read, history.Fenced, 4, 0, false, true, 0},
		{history.Read, history.Fenced, 9, 0, true, false, 1}, // a shared token raises no mark
		{history.Write, history.Fenced, 5, 2, false, false, 2},
		{history.Read, history.Fenced, 6, 0, false, false, 2}, // a read raises it
		{history.Write, history.Fenced, 5, 3, false, true, 3},
		{history.Read, history.Fenced, 5, 0, true, true, 0},
		{history.Read, history.Fenced, 6, 0, false, false, 2},
		{history.Write, history.Unfenced, 1, 8, false, false, 8},
	} {
		if e := serve(c.kind, c.resource, c.token, c.value, c.shared); e.Stale != c.stale || !c.stale && e.Value != c.now {
			t.Errorf("%+v: %+v", c, e)
		}
		mode := engine.Exclusive
		if c.shared {
			mode = engine.Shared
		}
		if p := (fence.Pass{Name: "n", Token: 5, Mode: mode}); p.Check(w.resources["n"].mark) != nil && w.resources["n"].mark <= 5 {
			t.Errorf("%+v: the mark is %v", c, w.resources["n"].mark)
		}
	}
}

func TestTheHostsOfAURL(t *testing.T) {
	for url, want := range map[string]string{
		"redis://127.0.0.1:6379":                   "redis://A/",
		"redis://127.0.0.1:6379/3?layout=plain":    "redis://A/3?layout=plain",
		"postgres://u:p%40@h:1/db?sslmode=disable": "postgres://u:p%40@A/db?sslmode=disable",
		"zookeeper://a:1,b:2,[::1]:3/root":         "zookeeper://A,A,A/root",
		"mysql://root@h:3306/test?user=a@b:1":      "mysql://root@A/test?user=a@b:1",
		"redis://localhost":                        "",
		"redis://a:1,b":                            "",
		"dir:///tmp/x":                             "",
		"redis+unix:///tmp/redis.sock":             "",
		"dir:":                                     "",
	} {
		hosts, with, err := hostsOf(url)
		got := ""
		if err == nil {
			var others []string
			for range hosts {
				others = append(others, "A")
			}
			got = with(others)
		}
		if got != want && got+"/" != want {
			t.Errorf("%s: %q, %v; want %q", url, got, err, want)
		}
	}
}

// Every client learns with its calls of the engine itself that those are about other names
// from then on.
func TestNamesOfTheEngineItselfChange(t *testing.T) {
	w := newWitness(bufio.NewWriter(&bytes.Buffer{}), func(err error) { t.Error(err) })
	w.rawNames = 2
	rounds := map[int]int{}
	call := func(c *client, what string) int {
		w.mu.Lock()
		defer w.mu.Unlock()
		var answer told
		w.eventLocked(c, &said{Ask: 1, Event: &history.Event{Kind: history.Call, What: what, Op: 1}}, &answer)
		return answer.Round
	}
	a, b := &client{w: w, name: "a", calls: map[int64]history.Event{}}, &client{w: w, name: "b", calls: map[int64]history.Event{}}
	for range 4 * callsOfName {
		rounds[call(a, history.Raw)]++
		call(a, history.Lock) // which does not count
	}
	if got := call(b, history.Raw); got != 2 || w.round() != 2 {
		t.Errorf("after %d calls on 2 names the round is %d, and %d", 4*callsOfName, got, w.round())
	}
	if rounds[0] != 2*callsOfName-1 || rounds[1] != 2*callsOfName {
		t.Errorf("%v", rounds)
	}
}
