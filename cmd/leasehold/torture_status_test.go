//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"leasehold/torture"
)

// The most important figures come first: 80 columns have room for them.
func TestTheStatusOfATrial(t *testing.T) {
	s := torture.Status{
		Left: 9*time.Minute + 58*time.Second + 400*time.Millisecond, Holds: 12345, Strikes: 123, Bits: 118, Lost: 34, Failed: 5,
		Waited: 1234*time.Millisecond + 400*time.Microsecond, Violations: 1,
	}
	text := statusText(s)
	if want := "9m58s left, 1 violations so far, 12345 leases, 118 of 123 faults bit, longest wait 1.234s, 34 leases lost"; text != want {
		t.Errorf("%q", text)
	}
	if !strings.Contains(text[:80], " faults bit,") {
		t.Errorf("80 columns show %q", text[:80])
	}
	b, err := json.Marshal(viewStatus(s))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"status":{"left":598.4,"leases":12345,"faults":123,"effects":118,"lost":34,"failed":5,"waited":1.2344,"violations":1}}`
	if string(b) != want {
		t.Errorf("%s", b)
	}
}

// Where there is no terminal, a status comes from time to time, and at the end.
func TestTheStatusWithoutATerminal(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		show, cleared := (&app{out: &out}).follow(&out, asJSON)
		for left := range 5 {
			show(torture.Status{Left: time.Duration(4-left) * time.Second, Holds: left})
		}
		cleared()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 2 || strings.ContainsAny(out.String(), "\r\x1b") {
			t.Errorf("%q", out.String())
			continue
		}
		for i, s := range []torture.Status{{Left: 4 * time.Second}, {Holds: 4}} {
			want := statusText(s)
			if asJSON {
				b, err := json.Marshal(viewStatus(s))
				if err != nil {
					t.Fatal(err)
				}
				want = string(b)
			}
			if lines[i] != want {
				t.Errorf("%q, not %q", lines[i], want)
			}
		}
	}
}

// A terminal shows one line, however narrow it is, and the verdict in its place.
func TestTheStatusOnATerminal(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.session()
	s.enter(`$leasehold torture --ttl 200ms --for 3s --clients 1 --nemesis none --out ` + p.file("out") + ` && true; echo "code=$?"`)
	s.expect("\r\x1b[?7l") // no other line is begun
	s.expect("s left, 0 violations so far, ")
	s.expect("\x1b[K\x1b[?7h")
	s.expect("\r\x1b[?7l")
	s.expect("0s left")
	s.expect("\x1b[K\x1b[?7h\r\x1b[Kexclusion")
	s.expect("code=77")
	if _, err := os.Stat(p.file("out")); err != nil {
		t.Error(err)
	}
}
