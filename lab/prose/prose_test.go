package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Sentences that stood in this project and that a reader had to read twice.
func TestStumblingBlocksAreCaught(t *testing.T) {
	rules := rulebook()
	for _, c := range []struct {
		kind kind
		text string
	}{
		{page, "A person with Go and nothing else:"},
		{page, "Nothing is renewed early for itself."},
		{page, "Whoever an engine says is next looks."},
		{godoc, "Until it is answered it is taken to keep that."},
		{help, "Default: nobody"},
		{page, "This is the fault that no choice helps against."},
		{page, "In case that message was lost, who is next also asks once a second."},
		{page, "Whoever says nothing takes what the engine has."},
		{godoc, "hasEnded also where its timer is late."},
		{failed, "there is room for few"},
		{failed, "run what CODE prints as somebody who may"},
		{failed, "let this user's write"},
		{failed, "not an answer of ours"},
		{page, "A schema for who may create them where the programs that lock may not."},
		{help, "Other commands have 1 as well."},
		{page, "Who holds a lease is told that it ended."},
		{page, "It wakes who waits at once."},
		{page, "Its waiter looks every second."},
		{page, "A name may be lent to a caller of the same process, and lending costs nothing."},
		{page, strings.Repeat("word ", mostWords) + "and one more."},
	} {
		found := false
		for _, s := range (text{c.kind, 1, c.text}).sentences() {
			found = found || len(judge(rules, c.kind, s)) > 0
		}
		if !found {
			t.Errorf("%q passes", c.text)
		}
	}
}

// TestStumblingBlocksAreCaughtWhereverTheyStand: in the middle of a page, in an item, in a
// doc comment, in an error, in an error's own method, in help and in a flag.
func TestStumblingBlocksAreCaughtWhereverTheyStand(t *testing.T) {
	rules := rulebook()
	for _, block := range []string{
		"A person with Go and nothing else", "Nothing is renewed early for itself", "Whoever an engine says is next looks",
		"until it is answered it is taken to keep that", "Default: nobody", "that no choice helps against", "hasEnded also where its timer is late",
		"there is room for few", "run what CODE prints as somebody who may", "let this user's write", "not an answer of ours",
		"for who may create them where the programs that lock may not", "Other commands have 1 as well",
	} {
		for place, form := range map[string]string{
			"page.md": "It is here. %s.\n", "item.md": "- %s\n", "crlf.md": "It is here.\r\n\r\n%s.\r\n", "fence.md": "````\n```\n````\n\n%s.\n",
			"doc.go": "// Package a is. %s.\npackage a\n", "error.go": "package a\nvar e = errors.New(\"x: %s\")\n",
			"method.go": "package a\nfunc (e) Error() string { return fmt.Sprintf(\"x: %s\", 1) }\n",
			"help.go":   "package a\nvar c = T{Long: \"%s\"}\n", "flag.go": "package a\nfunc f() { flags.IntVar(&a, \"b\", 1, \"%s\") }\n",
		} {
			src := []byte(strings.ReplaceAll(form, "%s", block))
			texts := markdown(src)
			if strings.HasSuffix(place, ".go") {
				var err error
				if texts, err = goSource(place, src); err != nil {
					t.Fatal(err)
				}
			}
			found := false
			for _, x := range texts {
				for _, s := range x.sentences() {
					found = found || len(judge(rules, x.kind, s)) > 0
				}
			}
			if !found {
				t.Errorf("%q passes in %s", block, place)
			}
		}
	}
}

func TestPlainSentencesPass(t *testing.T) {
	rules := rulebook()
	for _, plain := range []string{
		"The next waiter polls every second.",
		"Who holds the name?",
		"The command shows who holds a name and who waits for it.",
		"The holder, who waits for the answer, keeps its place.",
		"Redis evicts keys when maxmemory is reached, unless its eviction policy is noeviction.",
		"What can go wrong, and what then?",
		"The function returns what it was given.",
	} {
		for _, s := range (text{page, 1, plain}).sentences() {
			if found := judge(rules, page, s); len(found) > 0 {
				t.Errorf("%q: %v", plain, found)
			}
		}
	}
}

func TestTextsAreFound(t *testing.T) {
	md := markdown([]byte("# A `title`\n\nOne. Two `x`\nwraps e.g. here.\n\n- an [item](x.md)\n- [What one may say](#x)\n\n| a | b |\n|---|---|\n| c | d |\n\n```go\nWho codes.\n```\n"))
	var got []string
	for _, x := range md {
		for _, s := range x.sentences() {
			got = append(got, string(x.kind)+": "+s.text)
		}
	}
	want := []string{"cell: A CODE", "page: One.", "page: Two CODE wraps e.g. here.", "page: an item", "cell: What one may say", "cell: a", "cell: b", "cell: c", "cell: d"}
	if !slices.Equal(got, want) {
		t.Errorf("of a page: got %q, want %q", got, want)
	}

	code := `// Package x is here.
//
//	code
package x

import "errors"

// Fn returns [T]. It is short.
func Fn() error { return errors.New("x: it failed: " + "why") }

// hidden is nobody's.
func hidden() {}

// T is a type.
type T struct {
	A int // A is a field.
}

var _ = command{Short: "Do it", Long: "It does it."}
`
	texts, err := goSource("x.go", []byte(code))
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	for _, x := range texts {
		got = append(got, string(x.kind)+": "+strings.TrimSpace(x.body))
	}
	want = []string{"godoc: Package x is here.", "godoc: Fn returns CODE. It is short.", "godoc: T is a type.", "godoc: A is a field.",
		"failed: x: it failed: why", "help: Do it", "help: It does it."}
	if !slices.Equal(got, want) {
		t.Errorf("of Go: got %q, want %q", got, want)
	}
}

// What people read of this project is plain.
func TestTheTreeIsPlain(t *testing.T) {
	found, err := check([]string{filepath.Join("..", "..")}, false)
	if err != nil || found > 0 {
		t.Errorf("%d sentences are not plain, %v: run `make prose`", found, err)
	}
}
