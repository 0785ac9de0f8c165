package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const hostile = "a\x1b[2Jb\u009b31mc\u202ed\x00e\xfff\tg\nh\U000e0041i é"

func TestPrintable(t *testing.T) {
	if got, want := printable(hostile), `a\x1b[2Jb\u009b31mc\u202ed\x00e\xfff\tg\nh\U000e0041i é`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := printable("plain é 漢 \""); got != "plain é 漢 \"" {
		t.Errorf("%s", got)
	}
}

// However long what it is about, a sentence ends, and with its own end.
func TestBrief(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("é", 1000)} {
		if got := brief(s); got != s {
			t.Errorf("%d bytes became %d", len(s), len(got))
		}
	}
	for _, argument := range []string{strings.Repeat("x", 130_000), strings.Repeat("é", 1001), strings.Repeat("a b ", 700), strings.Repeat("漢", 1000)} {
		got := brief("cannot run " + argument + ": see the help")
		if !strings.HasPrefix(got, "cannot run ") || !strings.HasSuffix(got, ": see the help") || len(got) > 2100 || !utf8.ValidString(got) || !strings.Contains(got, " bytes) ") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}

func TestQuoteName(t *testing.T) {
	for name, want := range map[string]string{
		"stock:42": "stock:42", "a b": `"a b"`, `a"b`: `"a\"b"`, "é": "é", "a\x1b[0m": `"a\x1b[0m"`, " ": `" "`, `a\b`: `"a\\b"`,
	} {
		if got := quoteName(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// JSON is data for programs and harmless on a terminal.
func TestJSONIsPrintableAndExact(t *testing.T) {
	for _, s := range []string{strings.ToValidUTF8(hostile, "?"), "\U0001f512", "\U000e0041"} {
		var b strings.Builder
		if err := writeJSON(&b, s, ""); err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back != s {
			t.Errorf("%q came back as %q: %v", s, back, err)
		}
		for _, r := range strings.TrimSuffix(b.String(), "\n") {
			if !unicode.IsPrint(r) {
				t.Errorf("%q contains %q", b.String(), r)
			}
		}
	}
}
