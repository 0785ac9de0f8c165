package pglock

import (
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"leasehold/lab/servers"
)

func TestWhatIsNoServerIsNamed(t *testing.T) {
	rows.WhatIsNoServerIsNamed(t, func(addr string) string { return "postgres://postgres@" + addr + "/test" }, "did not answer in time (5s, or connect_timeout): it is no PostgreSQL", "does not speak as PostgreSQL does")
}

// What answers at a host that is not there, and what speaks another protocol, is not named
// as the other, or as a PostgreSQL without TLS.
func TestTheCauseOfNoConnection(t *testing.T) {
	const other = "does not speak as PostgreSQL does"
	if _, err := Open(within(t), "postgres://me@no..host/d"); err == nil || !strings.Contains(err.Error(), "no such host") || strings.Contains(err.Error(), other) {
		t.Errorf("an unknown host: %v", err)
	}
	addr := servers.Impostor(t, "tcp", func(c net.Conn) { // refuses TLS, then says what no server begins with
		io.WriteString(c, "D\x00\x00\x00\x06\x00\x00")
	})
	for sslmode, want := range map[string]string{"": other, "?sslmode=disable": other, "?sslmode=require": "leave sslmode out"} {
		if _, err := Open(within(t), "postgres://me@"+addr+"/d"+sslmode); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", sslmode, err, want)
		}
	}
}

// The error of an unknown parameter shows how a setting is written, in a way that works.
func TestTheHintOfAnUnknownParameterIsTaken(t *testing.T) {
	_, _, err := parse("postgres://me@h/d?work_mem=1MB")
	if err == nil {
		t.Fatal("it was taken")
	}
	_, hint, _ := strings.Cut(err.Error(), "a setting of the session is ")
	config, _, err := parse("postgres://me@h/d?" + hint)
	if err != nil {
		t.Fatalf("%s: %v", hint, err)
	}
	want, err := url.PathUnescape(strings.TrimPrefix(hint, "options="))
	if got := config.ConnConfig.RuntimeParams["options"]; got != want || err != nil {
		t.Errorf("%s says %q", hint, got)
	}
}
