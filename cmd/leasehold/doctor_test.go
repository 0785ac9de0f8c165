//go:build linux

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"leasehold/lab/servers"
)

// TestDoctor: what it prints, its exit codes, and that it changes nothing.
func TestDoctor(t *testing.T) {
	t.Parallel()
	p, s := redisPlaceWith(t, &servers.RedisOptions{Durable: true})
	if out := p.must("doctor"); out != "0 problems, 0 warnings, 0 notes\n" {
		t.Errorf("a healthy server: %s", out)
	}
	put := func(args ...string) {
		if _, err := s.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	put("SET", "a\x1b[31m:lock", "x")
	put("HSET", "stock", "f3f2e3d8-5f1c-4b3a-9e59-0a5d3c1d2e4f:41", "1")
	put("SET", "job:7", "x")
	for _, args := range [][]string{{"doctor"}, {"doctor", "redis://" + s.Addr}, {"doctor", "--engine", "redis://" + s.Addr}} {
		code, out, says := p.leasehold(args...)
		if code != 1 || says != "" {
			t.Errorf("%v: exit code %d, %s", args, code, says)
		}
		for _, want := range []string{
			"problem: a lock of Redisson has no expiry: \"stock\"", "warning: a lock key has no expiry: ", "\n    Do: ", "1 problem, 1 warning, 0 notes\n",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: it does not say %q:\n%s", args, want, out)
			}
		}
		if strings.Contains(out, "\x1b") || strings.Index(out, "problem:") > strings.Index(out, "warning:") {
			t.Errorf("%v: %q", args, out)
		}
	}
	code, out, _ := p.leasehold("doctor", "--json", "--keys", "job:*", "--limit", "100")
	var all []findingView
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 1 || len(all) != 2 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	if all[0].Severity != "problem" || all[1].Severity != "warning" || !strings.HasPrefix(all[1].What, `a lock key has no expiry: "job:7"`) || all[1].Means == "" || all[1].Do == "" {
		t.Errorf("%+v", all)
	}
	put("FLUSHALL")
	if out := p.must("doctor", "--json"); out != "[]\n" {
		t.Errorf("a healthy server: %s", out)
	}
	if v, err := s.Do("DBSIZE"); err != nil || v != int64(0) {
		t.Errorf("%v keys, %v", v, err)
	}
}

func TestDoctorsErrors(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for want, cases := range map[int][][]string{
		64: {
			{"doctor", "redis://u:hunter2@127.0.0.1:1"}, {"doctor", ""}, {"doctor", "mem:"}, {"doctor", "nothing"}, {"doctor", "--limit", "0"},
			{"doctor", "redis://h", "redis://h"}, {"doctor", "redis://h", "--engine", "redis://h"}, {"doctor", "@/absent"}, {"doctor", "--require", "fencing", "dir:"}, {"demo", "setnx", "--require", "fencing"},
			{"demo", "setnx", "--server", "redis://u:hunter2@127.0.0.1:1"}, {"demo", "setnx", "--engine", "redis://h"},
		},
		69: {{"doctor", "redis://" + servers.Nobody}},
	} {
		for _, args := range cases {
			code, out, says := p.leasehold(args...)
			if code != want || out != "" || strings.Contains(says, "hunter2") {
				t.Errorf("%q: exit code %d, %q, %q", args, code, out, says)
			}
			one(t, says, "leasehold: ")
		}
	}
	if out := p.must("doctor", "dir://"+p.file("absent")); !strings.HasSuffix(out, "\n0 problems, 0 warnings, 1 note\n") {
		t.Errorf("a note alone: %s", out)
	}
	// An error that joins others is one sentence, without marks of lines.
	_, _, says := p.leasehold("doctor", "redlock://"+servers.Nobody+",127.0.0.1:2,127.0.0.1:3")
	one(t, says, "refused; 127.0.0.1:2")
	if strings.Contains(says, `\n`) {
		t.Error(says)
	}
	file := p.file("url") // it may have a password
	if err := os.WriteFile(file, []byte("redis://u:hunter2@"+servers.Nobody+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, says := p.leasehold("doctor", "@"+file); code != 69 || strings.Contains(says, "hunter2") {
		t.Errorf("exit code %d, %s", code, says)
	}
}
