package linear

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/torture/history"
)

// A history as people write it. Each line is a time in milliseconds, and a call or its answer:
//
//	0 1 join A            the call 1, for the claim A of the name n: exclusive, for 1 s
//	0 1 join A 2/3        or some permits; then also: nowait, for B (in place of it)
//	5 1 held 7            answered: the state and the ticket; 1 s is granted, or: held 7 for 100
//	5 1 failed            or refused, gone; refused 4: since the limit is 4
//	9 2 renew A           or leave A, revoke 7, revoke 7 now
//	10 b3 join B          the call 3 is of the client b; without a letter the client is c
//	11 b4 lock            a call of the client library; answered ok. mark after that is a mark
//	20 exit b
//	release at once       or session: what the engine declares; else it keeps claims for their TTL
//	order none            what the engine declares; else it has one
//	cut                   the history has no end
func build(t *testing.T, text string) []history.Event {
	t.Helper()
	events := []history.Event{{Kind: history.Begin, Run: &history.Run{Declares: ordered}}}
	methods := map[string]string{}
	cut := false
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		switch {
		case len(w) == 0:
			continue
		case w[0] == "release":
			events[0].Run.Declares.CrashRelease = strings.Join(w[1:], " ")
			continue
		case w[0] == "order":
			events[0].Run.Declares.Order = w[1]
			continue
		case w[0] == "cut":
			cut = true
			continue
		}
		number := func(s string) int64 {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return n
		}
		at := time.Duration(number(w[0])) * time.Millisecond
		if w[1] == "exit" {
			events = append(events, history.Event{Kind: history.Exit, At: at, Client: w[2]})
			continue
		}
		client, op := "c", w[1]
		if op[0] >= 'a' {
			client, op = op[:1], op[1:]
		}
		e := history.Event{Kind: history.Call, At: at, Op: number(op), Client: client, Name: "n", What: history.Raw}
		e.Engine = &history.EngineCall{Method: w[2]}
		switch w[2] {
		case history.Lock:
			e.What, e.Name, e.Engine = history.Lock, "m", nil
		case "mark":
			e = history.Event{Kind: history.Mark, At: at, Op: e.Op, Client: client}
		case join:
			e.Permits, e.Limit = 1<<31-1, 1<<31-1
			e.Engine.Claim, e.Engine.WaitTTL = w[3], time.Second
			for i := 4; i < len(w); i++ {
				switch p, l, ok := strings.Cut(w[i], "/"); {
				case ok:
					e.Permits, e.Limit = int32(number(p)), int32(number(l))
				case w[i] == "nowait":
					e.Engine.NoWait = true
				case w[i] == "for":
					i++
					e.Engine.Replaces = w[i]
				}
			}
		case renew, leave:
			e.Engine.Claim = w[3]
		case revoke:
			e.Engine.Ticket, e.Now = uint64(number(w[3])), len(w) > 4
		default:
			e = history.Event{Kind: history.Answer, At: e.At, Op: e.Op, Client: client, Result: history.OK}
			switch {
			case w[2] == history.Failed || w[2] == history.Refused || methods[w[1]] == revoke || methods[w[1]] == history.Lock:
				if e.Result = w[2]; w[2] == history.Refused && len(w) > 3 {
					e.Limit = int32(number(w[3]))
				}
			default:
				e.Engine = &history.EngineCall{State: w[2], Granted: time.Second}
				if w[2] == gone { // with a ticket, if somebody revoked it
					e.Engine.Granted, e.Engine.Revoked = 0, len(w) > 3
				}
				if len(w) > 3 {
					e.Engine.Ticket = uint64(number(w[3]))
				}
				if len(w) > 5 {
					e.Engine.Granted = time.Duration(number(w[5])) * time.Millisecond
				}
			}
			events = append(events, e)
			continue
		}
		methods[w[1]] = w[2]
		events = append(events, e)
	}
	if !cut {
		events = append(events, history.Event{Kind: history.End, At: events[len(events)-1].At})
	}
	return events
}

// inTwoSteps has a claim take its place while another holds, and hold once that has been
// replaced by one behind it: no step does both.
func inTwoSteps(release string) string {
	return release + `
			0 a1 join A
			1 a1 held 7
			2 c2 join C
			3 a3 join B for A
			4 a3 waiting 9
			5 c2 held 8`
}

// keptLimit is an engine that keeps a limit when the queue is empty.
func keptLimit(declares string) string {
	return declares + `
			0 1 join A 1/4
			1 1 held 7
			2 2 leave A
			3 2 held
			4 3 join B 1/3
			5 3 refused 4`
}

func TestRules(t *testing.T) {
	for _, r := range []struct{ name, text, want string }{
		{"two hold", `
			0 1 join A
			1 1 held 7
			2 2 join B
			3 2 held 8`, "no order of the calls explains that join of B by c (2147483647 of 2147483647) was answered held with ticket 8: before this answer the queue was [A held (2147483647 of 2147483647)]"},
		{"a lost Join made the claim anew", `
			0 1 join A 1/3
			1 1 held 7
			2 2 join A 1/3
			3 2 failed
			1200 3 renew A
			1201 3 held 9`, ""},
		{"a lost Join made the claim anew, and another stands behind it", `
			0 1 join A
			1 1 held 7
			2 2 join A
			3 2 failed
			1200 b3 join B
			1201 b3 waiting 11
			1202 4 renew A
			1203 4 held 9`, ""},
		{"a lost Join cannot make anew what is proven", `
			0 1 join A 1/3
			1 1 held 7
			2 2 join A 1/3
			3 2 failed
			900 3 renew A
			901 3 held 9`, "no order of the calls explains that renew of A by c was answered held with ticket 9"},
		{"a lost Join came before another, as their tickets tell", `
			0 c1 join C 1/3
			1 c1 held 7
			2 a2 join A 1/3
			3 a2 failed
			4 b3 join B 3/3
			5 b3 failed
			6 b4 renew B
			7 b4 waiting 9
			8 a5 renew A
			9 a5 held 8`, ""},
		{"a lost Join came before another, which is found waiting", `
			0 a1 join A
			1 a1 failed
			2 b2 join B
			3 b2 failed
			4 b3 leave B
			5 b3 waiting`, ""},
		{"a lost Join came before one that replaced a claim", `
			0 a1 join A 1/3
			1 a1 held 7
			2 b2 join B 1/3
			3 b2 failed
			4 a3 join C 1/3 for A
			5 a3 failed
			6 a4 renew A
			7 a4 gone
			8 a5 renew C
			9 a5 held 9
			10 b6 renew B
			11 b6 held 8`, ""},
		{"a lost Join came before one that made a claim anew", `
			0 a1 join A 1/3
			1 a1 held 7
			2 a2 join A 1/3
			3 a2 failed
			4 b3 join B 3/3
			5 b3 failed
			1200 a4 renew A
			1201 a4 waiting 9
			1202 b5 renew B
			1203 b5 held 8`, ""},
		{"a lost Join with another limit came once the first was over", `
			0 a1 join A 1/3
			1 a1 held 7
			2 b2 join B 2/4
			3 b2 failed
			1200 c3 join C 4/4
			1201 c3 waiting 9`, ""},
		{"a lost Join replaced the claim before one that holds", `
			0 a1 join A
			1 a1 held 7
			2 b2 join B
			3 b2 waiting 8
			4 a3 join C for A
			5 a3 failed
			6 b4 renew B
			7 b4 held 8`, ""},
		{"a lost Join stands behind another, as their tickets tell, and not before it", `
			0 a1 join A
			1 a1 failed
			2 b2 join B
			3 b2 failed
			4 b3 renew B
			5 b3 waiting 9
			6 a4 renew A
			7 a4 held 10`, "renew of A"},
		{"no lost Join came before another, which is found waiting", `
			0 b2 join B
			1 b2 failed
			2 b3 leave B
			3 b3 waiting`, "leave of B"},
		{"the first is over", `
			0 1 join A
			1 1 held 7
			982 2 join B
			983 2 held 8`, ""},
		{"the first is over while the call is under way", `
			0 1 join A
			1 1 held 7
			2 2 join B
			983 2 held 8`, ""},
		{"the first is not over yet", `
			0 1 join A
			1 1 held 7
			2 2 join B
			982 2 held 8`, "join of B"},
		{"the first ends with its client, which is killed", `
			release at once
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 exit c`, ""},
		{"who waits first ends with its client", `
			release at once
			0 a1 join A
			1 a1 held 7
			2 2 join B
			3 2 waiting 8
			4 b3 join C
			5 b3 waiting 9
			6 a4 leave A
			7 a4 held
			8 b5 renew C
			9 b5 held 9
			10 exit c
			11 a6 lock
			12 a6 ok`, ""},
		{"with its session", `
			release session
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 exit c`, ""},
		{"the engine keeps it although its client is killed", `
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 exit c`, "join of B"},
		{"its client goes on", `
			release at once
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 exit b`, "join of B"},
		{"its client is killed later", `
			release at once
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 5 lock
			6 5 ok
			7 exit c`, "join of B"},
		{"its client has made a call meanwhile that was not answered", `
			release at once
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 5 lock
			7 exit c`, ""},
		{"its client was seen to hold something later", `
			release at once
			0 5 lock
			0 5 ok
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 5 mark
			7 exit c`, "join of B"},
		{"of an answer that comes later it is not known when it was sent", `
			release at once
			0 1 join A
			1 5 lock
			2 1 held 7
			3 b2 join B
			4 b2 held 8
			5 5 ok
			7 exit c`, ""},
		{"what a killed client has sent ends at once", `
			release at once
			0 1 join A
			1 b2 join B
			2 b2 waiting 8
			3 b3 renew B
			4 b3 held 8
			7 exit c`, ""},
		{"the trial was cut short, and nobody knows which client was killed", `
			release at once
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			cut`, ""},
		{"its client lived on in a trial that was cut short", `
			release at once
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 5 lock
			6 5 ok
			cut`, "join of B"},
		{"who joined later has been answered before the first can have ended", `
			0 1 join A
			1 1 held 7
			2 2 join B
			3 3 join C
			4 3 waiting 9
			991 2 held 8`, "join of B"},
		{"a renewal proves more", `
			0 1 join A
			1 1 held 7
			500 3 renew A
			501 3 held 7
			990 2 join B
			991 2 held 8`, "join of B"},
		{"a renewal that grants less takes nothing away", `
			0 1 join A
			1 1 held 7
			2 3 renew A
			3 3 held 7 for 100
			400 2 join B
			401 2 held 8`, "join of B"},
		{"once a claim is over it does not come back", `
			0 1 join A
			1 1 held 7
			1500 2 join B
			1501 2 held 8
			1502 3 renew A
			1503 3 held 7`, "renew of A"},
		{"a claim that is gone although it is proven", `
			0 1 join A
			1 1 held 7
			500 2 renew A
			501 2 gone`, "renew of A"},
		{"calls that overlap have any order", `
			0 1 join A
			1 2 join B
			2 2 held 7
			3 3 join C
			4 1 waiting 8
			5 3 waiting 9
			6 4 leave B
			7 4 held
			8 5 renew A
			9 5 held 8`, ""},
		{"tickets say which was first", `
			0 1 join A
			1 2 join B
			2 2 held 7
			4 1 waiting 6`, "join of A"},
		{"a token comes again", `
			0 1 join A
			1 1 held 7
			2 2 leave A
			3 2 held
			4 3 join B
			5 3 held 7`, "join of B"},
		{"who waits is passed", `
			0 1 join A
			1 1 held 7
			2 2 join B
			3 2 waiting 8
			4 3 join C
			5 3 waiting 9
			6 4 leave A
			7 4 held
			8 5 renew C
			9 5 held 9`, "renew of C"},
		{"who waits is not told", `
			0 1 join A
			1 1 held 7
			2 2 join B
			3 2 waiting 8
			6 4 leave A
			7 4 held
			8 5 renew B
			9 5 waiting 8`, "renew of B"},
		{"a free name is taken", `
			0 1 join A
			1 1 waiting 7`, "join of A"},
		{"a lost call has it", `
			0 1 join A
			1 1 failed
			2 2 join B
			3 2 waiting 8`, ""},
		{"a lost call has it for its time", `
			0 1 join A
			1 2 join B
			3 2 waiting 8
			600 3 renew B
			601 3 waiting 8
			991 4 renew B
			992 4 held 8`, ""},
		{"a lost call arrives late", `
			0 1 join A
			1 1 failed
			2 2 join B
			3 2 held 8
			4 3 join C
			5 3 waiting 10
			6 4 leave B
			7 4 held
			8 5 renew C
			9 5 waiting 10`, ""},
		{"a lost leave arrives late", `
			0 1 join A
			1 1 held 7
			2 2 leave A
			3 2 failed
			4 3 join B
			5 3 waiting 8
			6 4 renew B
			7 4 held 8`, ""},
		{"a leave arrives once", `
			0 1 join A
			1 1 held 7
			2 2 leave A
			3 2 held
			4 3 leave A
			5 3 held`, "leave of A"},
		{"a lost renewal changes nothing", `
			0 1 join A
			1 1 held 7
			2 2 renew A
			3 2 failed
			990 3 join B
			991 3 held 8`, ""},
		{"a refused call changes nothing", `
			0 1 join A 1/3
			1 1 refused
			2 2 join B
			3 2 held 8`, ""},
		{"refused for its limit", `
			0 1 join A 1/4
			1 1 held 7
			2 2 join B 1/3
			3 2 refused 4`, ""},
		{"refused for its limit, and nobody is left to disagree with", keptLimit(""),
			"join of B by c (1 of 3) was answered refused, since the limit is 4: before this answer the queue was []"},
		{"an engine of several steps may still have somebody to disagree with", keptLimit("release session"), ""},
		{"and so may one without order", keptLimit("order none"), ""},
		{"refused for its limit by one whose Leave was lost", `
			0 1 join A 1/4
			1 1 held 7
			2 2 leave A
			3 2 failed
			4 3 join B 1/3
			5 3 refused 4`, ""},
		{"refused for its limit by a lost Join", `
			0 a1 join A 1/4
			1 a1 failed
			2 2 join B 1/3
			3 2 refused 4`, ""},
		{"refused for its limit by a lost Join that came once the first was over", `
			0 a1 join A 1/3
			1 a1 held 7
			2 b2 join B 2/4
			3 b2 failed
			1200 c3 join C 3/3
			1201 c3 refused 4`, ""},
		{"that came once the first had left", `
			0 a1 join A 1/3
			1 a1 held 7
			2 b2 join B 2/4
			3 b2 failed
			4 a3 leave A
			5 a3 failed
			6 c4 join C 3/3
			7 c4 refused 4`, ""},
		{"a lost Join cannot stand there while the first is proven", `
			0 a1 join A 1/3
			1 a1 held 7
			2 b2 join B 2/4
			3 b2 failed
			900 c3 join C 3/3
			901 c3 refused 4`, "join of C"},
		{"refused for its limit by a lost Join besides the claim that it was to replace", `
			0 1 join A 1/4
			1 1 held 7
			2 b2 join B 1/4
			3 b2 failed
			4 3 join C 1/3 for A
			5 3 refused 4`, ""},
		{"refused for the limit of the claim that it was to replace", `
			0 1 join A 1/4
			1 1 held 7
			4 3 join C 1/3 for A
			5 3 refused 4`, "join of C"},
		{"refused for its limit by a Join that came while it was under way", `
			0 a1 join A 1/3
			1 b2 join B 1/4
			2 b2 held 7
			3 a1 refused 4`, ""},
		{"refused for its limit by a Join that came later", `
			0 a1 join A 1/3
			1 a1 refused 4
			2 b2 join B 1/4
			3 b2 held 7`, "join of A"},
		{"permits", `
			0 1 join A 2/3
			1 1 held 7
			2 2 join B 1/3
			3 2 held 8
			4 3 join C 1/3
			5 3 waiting 9`, ""},
		{"a permit too many", `
			0 1 join A 2/3
			1 1 held 7
			2 2 join B 2/3
			3 2 held 8`, "join of B"},
		{"two limits", `
			0 1 join A 1/3
			1 1 held 7
			2 2 join B 1/5
			3 2 held 8`, "join of B"},
		{"no waiting", `
			0 1 join A
			1 1 held 7
			2 2 join B nowait
			3 2 gone
			4 3 leave A
			5 3 held
			6 4 join C
			7 4 held 8`, ""},
		{"no waiting, and refused although the name is free", `
			0 1 join A nowait
			1 1 gone`, "join of A"},
		{"no waiting, and refused by an engine without order", `
			order none
			0 1 join A nowait
			1 1 gone`, ""},
		{"no waiting, and something is left", `
			0 1 join A
			1 1 held 7
			2 2 join B nowait
			3 2 gone
			4 3 leave A
			5 3 held
			6 4 join C
			7 4 waiting 9`, "join of C"},
		{"in place of the own claim", `
			0 1 join A
			1 1 held 7
			2 2 join B for A
			3 2 held 8`, ""},
		{"in place of the own claim, before who waits", `
			0 1 join A
			1 1 held 7
			2 3 join C
			3 3 waiting 8
			4 2 join B for A
			5 2 held 9`, "join of B"},
		{"revoked", `
			0 1 join A
			1 1 held 7
			2 2 revoke 7
			3 2 ok
			4 3 renew A
			5 3 gone
			6 4 join B
			7 4 waiting 8`, ""},
		{"revoked, and free too early", `
			0 1 join A
			1 1 held 7
			2 2 revoke 7
			3 2 ok
			6 4 join B
			7 4 held 8`, "join of B"},
		{"revoked at once", `
			0 1 join A
			1 1 held 7
			2 2 revoke 7 now
			3 2 ok
			6 4 join B
			7 4 held 8`, ""},
		{"a claim that holds some steps after it has its place", inTwoSteps("release session"), ""},
		{"of an engine of one step", inTwoSteps(""), "join of B"},
		{"it does not hold before the answer", `
			release session
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 3 renew A
			5 3 held 7`, "join of B"},
		{"it holds later than the answer", `
			release session
			0 1 join A
			1 1 held 7
			2 b2 join B
			3 b2 held 8
			4 3 leave A
			5 3 held`, "join of B"},
		{"the name becomes free before the answer", `
			release session
			0 a1 join A
			1 a1 held 7
			2 b2 join B
			2 a3 leave A
			3 c4 join C
			4 c4 waiting 9
			5 a3 held
			6 b2 held 8`, ""},
		{"it is revoked before the answer", `
			release session
			0 1 join A
			1 b2 revoke 7 now
			2 b2 ok
			3 1 gone 7
			4 b3 join B
			5 b3 held 8`, ""},
		{"it was revoked before, and nobody had told its client", `
			0 a1 join A
			1 a1 held 7
			2 2 join B
			3 2 waiting 8
			4 3 revoke 8
			5 3 ok
			6 4 join B
			7 4 gone 8
			8 5 join C
			9 5 waiting 9`, ""},
		{"it is said to be revoked, and was not", `
			release session
			0 1 join A
			3 1 gone 7
			4 b3 join B
			5 b3 held 8`, "join of"},
		{"a NoWait that is refused stands in the queue for a moment", `
			release session
			0 1 join A nowait
			1 1 gone
			2 2 join B
			3 2 held 8`, ""},
		{"a NoWait that was given up waits, and is refused when it is repeated", `
			release session
			0 a1 join A
			1 a1 held 7
			2 2 join B nowait
			3 2 failed
			4 3 renew B
			5 3 waiting 8
			6 4 join B nowait
			7 4 gone
			8 a5 leave A
			9 a5 held
			10 6 join C
			11 6 held 9`, ""},
		{"it is refused, and stands", `
			release session
			0 a1 join A
			1 a1 held 7
			2 2 join B nowait
			3 2 failed
			4 3 renew B
			5 3 waiting 8
			6 4 join B nowait
			7 4 gone
			8 5 renew B
			9 5 waiting 8`, "renew of B"},
		{"it is refused, and holds", `
			release session
			0 2 join B nowait
			1 2 failed
			2 3 renew B
			3 3 held 8
			4 4 join B nowait
			5 4 gone`, "join of B"},
		{"it is refused, and the name is free since before", `
			release session
			0 a1 join A
			1 a1 held 7
			2 2 join B nowait
			3 2 failed
			4 3 renew B
			5 3 waiting 8
			6 a4 leave A
			7 a4 held
			8 5 join B nowait
			9 5 gone`, "join of B"},
		{"of an engine of one step it never waits", `
			0 a1 join A
			1 a1 held 7
			2 2 join B nowait
			3 2 failed
			4 3 renew B
			5 3 waiting 8`, "renew of B"},
		{"a NoWait that waits is refused, and the answer is lost", `
			release session
			0 a1 join A
			1 a1 held 7
			2 b2 join B nowait
			3 b2 failed
			4 b3 renew B
			5 b3 waiting 8
			6 b7 join B nowait
			7 b7 failed
			8 c4 join C
			9 c4 waiting 9
			10 a5 leave A
			11 a5 held
			12 c6 renew C
			13 c6 held 9`, ""},
		{"nobody repeats it, and it goes", `
			release session
			0 a1 join A
			1 a1 held 7
			2 b2 join B nowait
			3 b2 failed
			4 b3 renew B
			5 b3 waiting 8
			6 c4 join C
			7 c4 waiting 9
			8 a5 leave A
			9 a5 held
			10 c6 renew C
			11 c6 held 9`, "renew of C"},
		{"a Join with another limit was given up, and stands until it is left", `
			release session
			0 a1 join A 1/3
			1 a1 held 7
			2 2 join B 3/4
			3 2 failed
			4 3 leave B
			5 3 waiting 8
			6 b4 join C 1/3
			7 b4 held 9`, ""},
		{"it is left twice", `
			release session
			0 a1 join A 1/3
			1 a1 held 7
			2 2 join B 3/4
			3 2 failed
			4 3 leave B
			5 3 waiting 8
			6 4 leave B
			7 4 waiting 8`, "leave of B"},
		{"it holds", `
			release session
			0 a1 join A 1/3
			1 a1 held 7
			2 2 join B 3/4
			3 2 failed
			4 3 leave B
			5 3 held 8`, "leave of B"},
		{"it is told to be in the queue", `
			release session
			0 a1 join A 1/3
			1 a1 held 7
			2 2 join B 3/4
			3 2 waiting 8`, "join of B"},
		{"of an engine of one step it never stands", `
			0 a1 join A 1/3
			1 a1 held 7
			2 2 join B 3/4
			3 2 failed
			4 3 leave B
			5 3 waiting 8`, "leave of B"},
		{"a refused Join ends what it was to replace, where clients disagree about the limit", `
			release session
			0 1 join A 1/3
			1 1 held 7
			2 b2 join B 2/4
			3 b2 failed
			4 3 join C 2/3 for A
			5 3 refused
			6 4 renew A
			7 4 gone`, ""},
		{"the refusal is lost", `
			release session
			0 1 join A 1/3
			1 1 held 7
			2 b2 join B 2/4
			3 b2 failed
			4 3 join C 2/3 for A
			5 3 failed
			6 4 renew A
			7 4 gone
			8 b5 join D 3/3
			9 b5 held 9`, ""},
		{"where nobody disagrees it does not", `
			release session
			0 1 join A 1/3
			1 1 held 7
			4 3 join C 2/3 for A
			5 3 refused
			6 4 renew A
			7 4 gone`, "renew of A"},
		{"it cannot end another", `
			release session
			0 1 join A 1/3
			1 1 held 7
			2 b2 join B 2/4
			3 b2 failed
			4 3 join C 2/3 for A
			5 3 refused
			6 b5 join D 1/3
			7 b5 held 8
			8 b4 renew D
			9 b4 gone`, "renew of D"},
		{"of an engine of one step it ends nothing", `
			0 1 join A 1/3
			1 1 held 7
			2 b2 join B 2/4
			3 b2 failed
			4 3 join C 2/3 for A
			5 3 refused
			6 4 renew A
			7 4 gone`, "renew of A"},
		{"a claim is promoted unseen", `
			release session
			0 1 join A
			1 1 waiting 7
			2 2 leave A
			3 2 waiting
			4 3 join B
			5 3 held 8`, ""},
		{"a claim is marked unseen", `
			release session
			0 1 join A
			1 1 held 7
			2 2 revoke 7
			3 2 ok
			4 3 leave A
			5 3 held`, ""},
		{"a claim of which nobody was told is found gone", `
			release session
			0 1 join A
			1 1 failed
			2 b2 join B
			3 b2 waiting 8
			4 3 leave A
			5 3 gone
			6 b4 renew B
			7 b4 held 8`, ""},
		{"of an engine of one step it is found", `
			0 1 join A
			1 1 failed
			2 b2 join B
			3 b2 waiting 8
			4 3 leave A
			5 3 gone
			6 b4 renew B
			7 b4 held 8`, "leave of A"},
		{"a claim is found that is not there", `
			release session
			0 1 join A
			1 1 held 7
			2 2 leave A
			3 2 held
			4 3 leave A
			5 3 held`, "leave of A"},
		{"a claim is found held that waits", `
			release session
			0 1 join A
			1 1 held 7
			2 2 join B
			3 2 waiting 8
			4 3 leave B
			5 3 held`, "leave of B"},
		{"a marked claim is renewed", `
			release session
			0 1 join A
			1 1 held 7
			2 2 revoke 7
			3 2 ok
			4 3 renew A
			5 3 held 7`, "renew of A"},
		{"revoked, and it was there", `
			0 1 join A
			1 1 held 7
			2 2 revoke 7
			3 2 gone`, "revoke of ticket 7"},
	} {
		t.Run(r.name, func(t *testing.T) {
			got, err := Check(build(t, r.text), Options{})
			switch {
			case err != nil:
				if r.want == "" || !strings.Contains(err.Error(), r.want) {
					t.Fatal(err)
				}
			case got.Undecided > 0 && r.want == "":
				t.Fatalf("%d calls are undecided", got.Undecided)
			case r.want == "" && len(got.Findings) > 0:
				t.Fatalf("a right engine is blamed: %s", got.Findings[0].Text)
			case r.want != "" && (len(got.Findings) != 1 || !strings.Contains(got.Findings[0].Text, r.want)):
				t.Fatalf("the findings are %v, want %q", got.Findings, r.want)
			}
			// In windows of one answer each it must be the same.
			if err == nil {
				one, _ := Check(build(t, r.text), Options{Window: 1})
				if len(one.Findings) != len(got.Findings) {
					t.Fatalf("in windows: %v", one.Findings)
				}
			}
		})
	}
}
