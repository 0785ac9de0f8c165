package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
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
