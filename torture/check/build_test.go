package check

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/torture/history"
)

// A history as people write it. Each line is a time in milliseconds, who, and what:
//
//	0 c1 A lock n                client c1 begins the call A: Lock of the name n, exclusive
//	0 c1 A try n shared          or some permits: 2/3. Then also: under B, now, of B
//	0 c1 R raw n X               a join of the engine itself, for the claim X
//	5 R held 7                   its answer, and the ticket; 1 s is granted
//	5 A queued
//	9 A ok 7                     its answer, and the token's ticket; 7.1 after one handoff
//	10 A mark                    with the token of the answer
//	20 A lost
//	30 A read fenced 4           or write; unfenced; stale after it
//	40 A unlock                  the call A! begins; then: 45 A! ok
//	50 strike 1 kill c1          or a server; then: breaks failover,memory
//	55 bit 1 / heal 1 / exit c1 / end / left 3 keys
type builder struct {
	t       testing.TB
	events  []history.Event
	numbers map[string]int64
	calls   map[string]history.Event
	tokens  map[string]uint64
	now     time.Duration
}

func declares() history.Declares {
	return history.Declares{Order: "fifo", Fencing: "always", Detach: true, CrashRelease: "ttl", Bound: 3 * time.Second}
}

func build(t testing.TB, d history.Declares, text string) []history.Event {
	t.Helper()
	b := &builder{t: t, numbers: map[string]int64{}, calls: map[string]history.Event{}, tokens: map[string]uint64{}}
	b.add(history.Event{Kind: history.Begin, Run: &history.Run{TTL: time.Second, Declares: d}})
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 0 {
			ms, err := strconv.Atoi(words[0])
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			b.now = time.Duration(ms) * time.Millisecond
			b.line(words[1:])
		}
	}
	return b.events
}

func (b *builder) add(e history.Event) {
	e.At = b.now
	b.events = append(b.events, e)
}

func (b *builder) number(label string) int64 {
	if _, ok := b.numbers[label]; !ok {
		b.numbers[label] = int64(len(b.numbers) + 1)
	}
	return b.numbers[label]
}

func (b *builder) int(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		b.t.Fatalf("%s: %v", b.now, err)
	}
	return n
}

func (b *builder) line(w []string) {
	switch w[0] {
	case "end":
		b.add(history.Event{Kind: history.End})
	case "exit":
		b.add(history.Event{Kind: history.Exit, Client: w[1]})
	case "bit", "heal":
		b.add(history.Event{Kind: history.Kind(w[0]), Fault: b.int(w[1])})
	case "left":
		b.add(history.Event{Kind: history.Left, Value: int64(b.int(w[1])), What: w[2]})
	case "strike":
		e := history.Event{Kind: history.Strike, Fault: b.int(w[1]), Named: w[2]}
		if e.Target = w[3]; strings.HasPrefix(w[3], "c") {
			e.Client, e.Target = w[3], ""
		}
		if len(w) > 5 {
			e.Breaks = strings.Split(w[5], ",")
		}
		b.add(e)
	default:
		if strings.HasPrefix(w[0], "c") && len(w) > 2 {
			b.call(w[0], w[1], w[2], w[3:])
		} else {
			b.of(w[0], w[1], w[2:])
		}
	}
}

func (b *builder) call(client, label, what string, rest []string) {
	e := history.Event{Kind: history.Call, Client: client, Op: b.number(label), What: what}
	if what == history.Lock || what == history.Try {
		e.Permits, e.Limit = 1<<31-1, 1<<31-1
	}
	if what == history.Raw {
		e.Permits, e.Limit = 1<<31-1, 1<<31-1
		e.Engine = &history.EngineCall{Method: "join", Claim: rest[1], WaitTTL: time.Second}
		rest = rest[:1]
	}
	for i := 0; i < len(rest); i++ {
		switch w := rest[i]; {
		case w == "shared":
			e.Permits = 1
		case strings.Contains(w, "/"):
			p, l, _ := strings.Cut(w, "/")
			e.Permits, e.Limit = int32(b.int(p)), int32(b.int(l))
		case w == "under":
			i++
			e.Under = b.number(rest[i])
		case w == "of":
			i++
			e.Of = b.number(rest[i])
		case w == "now":
			e.Now = true
		default:
			e.Name = w
		}
	}
	b.calls[label] = e
	b.add(e)
}

// of is what happens to a call.
func (b *builder) of(label, what string, rest []string) {
	c, ok := b.calls[label]
	if !ok {
		b.t.Fatalf("%v: there is no call %s", b.now, label)
	}
	e := history.Event{Kind: history.Kind(what), Client: c.Client, Op: c.Op}
	switch what {
	case "unlock", "detach":
		b.call(c.Client, label+"!", what, []string{"of", label})
		return
	case "lost":
	case "queued":
		if len(rest) > 0 {
			e.Token = b.token(rest[0])
		}
	case "mark":
		e.Token = b.tokens[label]
		if len(rest) > 0 {
			e.Token = b.token(rest[0])
		}
	case "read", "write":
		e.Name, e.Resource, e.Value, e.Token = c.Name, rest[0], int64(b.int(rest[1])), b.tokens[label]
		e.Stale = len(rest) > 2
	case "held", "waiting":
		e.Kind, e.Result = history.Answer, history.OK
		e.Engine = &history.EngineCall{Method: "join", Claim: c.Engine.Claim, State: what, Ticket: uint64(b.int(rest[0])), Granted: time.Second}
	default:
		e.Kind, e.Result = history.Answer, what
		if len(rest) > 0 && what == history.OK {
			e.Token = b.token(rest[0])
			b.tokens[label] = e.Token
		}
	}
	b.add(e)
}

func (b *builder) token(s string) uint64 {
	ticket, handoffs, _ := strings.Cut(s, ".")
	n := uint64(b.int(ticket)) << 10
	if handoffs != "" {
		n += uint64(b.int(handoffs))
	}
	return n
}

// row is a history, and what must be found in it.
type row struct {
	name     string
	text     string
	declares func(*history.Declares)
	want     string // of the one finding: part of its text; nothing if none may be
	declared bool   // it is a finding that the engine declares
	lines    []int
}

// judge checks that each row has the finding that it should have, and no other of p.
func judge(t *testing.T, p Property, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			d := declares()
			if r.declares != nil {
				r.declares(&d)
			}
			got, err := History(build(t, d, r.text), Options{Queue: p == Queue})
			if err != nil {
				t.Fatal(err)
			}
			var all []Finding
			for _, f := range got.Findings {
				if f.Property == p {
					all = append(all, f)
				}
			}
			switch {
			case r.want == "" && len(all) > 0:
				t.Fatalf("a lock that is right is blamed: %s", all[0].Text)
			case r.want == "":
				return
			case len(all) != 1:
				t.Fatalf("there are %d findings, want one: %v", len(all), all)
			case !strings.Contains(all[0].Text, r.want):
				t.Fatalf("the finding is %q, want %q", all[0].Text, r.want)
			case (all[0].Declared != "") != r.declared:
				t.Fatalf("declared: %q", all[0].Declared)
			case r.lines != nil && fmt.Sprint(all[0].Lines) != fmt.Sprint(r.lines):
				t.Fatalf("the lines are %v, want %v", all[0].Lines, r.lines)
			}
			if v := got.Of(p); r.declared != (v.Word == AsDeclared) || !r.declared && v.Word != Violated {
				t.Fatalf("the verdict is %s: %s", v.Word, v.Why)
			}
		})
	}
}
