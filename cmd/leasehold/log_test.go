//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"leasehold/lab/servers"
)

// logged is a line of --log json, without its time.
type logged map[string]any

// lines reads a log of which every line is JSON.
func lines(t *testing.T, text string) (all []logged) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l logged
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("not JSON: %q", line)
			continue
		}
		all = append(all, l)
	}
	return all
}

// tells requires lines in this order, others may be between them, each with these
// attributes.
func tells(t *testing.T, all []logged, want ...logged) {
	t.Helper()
	at := 0
	for _, w := range want {
		i := slices.IndexFunc(all[at:], func(l logged) bool {
			for k, v := range w {
				if got, ok := l[k]; !ok || v != "*" && fmt.Sprint(got) != fmt.Sprint(v) {
					return false
				}
			}
			return l["time"] != nil
		})
		if i < 0 {
			t.Fatalf("no line %v after the first %d of\n%v", w, at, all)
		}
		at += i + 1
	}
}

func TestLogOfARun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start("run", "a", "--label", "night\x1b[2Jly\u202e", "--", "sleep", "60")
	holder := p.held("a")
	x := p.start("run", "a", "--log", "json", "--", "sh", "-c", "echo out; exit 3")
	until(t, "it is told who holds it", func() bool { return strings.Contains(x.err.String(), "waiting behind") })
	p.must("revoke", "a", "--ticket", fmt.Sprint(holder.Ticket), "--now", "--yes")
	if code := x.wait(t); code != 3 || x.out.String() != "out\n" {
		t.Errorf("exit code %d, printed %q", code, x.out.String())
	}
	text := x.err.String()
	tells(t, lines(t, text),
		logged{"msg": "leasehold: waiting", "name": "a"},
		logged{"msg": "leasehold: waiting behind", "name": "a", "ticket": holder.Ticket, "ahead": 0, "mode": "exclusive", "holder": "*"},
		logged{"msg": "leasehold: held", "name": "a", "token": "*", "waited": "*"},
		logged{"msg": "leasehold: command started", "level": "INFO"},
		logged{"msg": "leasehold: command ended", "exit_code": 3, "held": "*"},
		logged{"msg": "leasehold: released", "token": "*"},
	)
	if strings.ContainsAny(text, "\x1b\u202e") {
		t.Errorf("what strangers wrote reaches the terminal: %q", text)
	}
}

func TestLogOfALoss(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.start("run", "a", "--log", "json", "--", "sleep", "60")
	until(t, "the command has started", func() bool { return strings.Contains(x.err.String(), "leasehold: command started") })
	p.must("revoke", "a", "--ticket", fmt.Sprint(p.held("a").Ticket), "--yes")
	if code := x.wait(t); code != codeLost {
		t.Errorf("exit code %d, want %d", code, codeLost)
	}
	tells(t, lines(t, x.err.String()),
		logged{"msg": "leasehold: command started"},
		logged{"msg": "leasehold: lost", "level": "ERROR", "name": "a", "token": "*", "reason": "revoked"},
		logged{"msg": "leasehold: command ended", "signal": "terminated", "why": "*"},
		logged{"msg": "leasehold: failed", "level": "ERROR", "exit_code": codeLost, "error": "*"},
	)
	if _, _, got := p.answered("run", "b", "--nonblock", "--log", "text", "--", "true"); !strings.Contains(got, `level=DEBUG msg="leasehold: held" name=b token=`) {
		t.Errorf("got %q", got)
	}
}

// The log says of an engine what the notices say to people, and they are silent.
func TestLogOfAnEngineThatGoesDown(t *testing.T) {
	t.Parallel()
	p, s := redisPlaceWith(t, &servers.RedisOptions{Durable: true})
	x, said := p.notified("logger", "run", "r", "--log", "json", "--ttl", "6s", "--", "sleep", "60")
	p.held("r")
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := x.wait(t); code != codeLost {
		t.Errorf("exit code %d, want %d", code, codeLost)
	}
	tells(t, lines(t, said()),
		logged{"msg": "leasehold: held"},
		logged{"msg": "leasehold: engine down", "level": "WARN", "error": "*"},
		logged{"msg": "leasehold: command told to end", "level": "WARN", "trusted": "*", "why": errNotRenewed.Error()},
		logged{"msg": "leasehold: command ended", "signal": "terminated", "why": "*"},
		logged{"msg": "leasehold: failed", "exit_code": codeLost},
	)
	if strings.Contains(said(), "tries again and again") {
		t.Errorf("a person is told as well: %s", said())
	}
}

// A refusal is a line too, once it is known how to say it.
func TestLogOfARefusal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, _, stderr := p.leasehold("run", "", "--log", "json", "--", "true")
	tells(t, lines(t, stderr), logged{"msg": "leasehold: failed", "exit_code": codeUsage, "error": "*"})
	if _, _, stderr := p.leasehold("run", "a", "--log", "xml", "--", "true"); !strings.Contains(stderr, `--log "xml" is neither json nor text`) {
		t.Errorf("it said %q", stderr)
	}
}
