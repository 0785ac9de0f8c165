package main

import (
	"regexp"
	"strings"
)

// kind is where a text stands.
type kind string

const (
	page   kind = "page"   // a paragraph or list item of a page
	cell   kind = "cell"   // of a table, or a heading: need not be a sentence
	godoc  kind = "godoc"  // a doc comment
	help   kind = "help"   // of a command or flag
	failed kind = "failed" // the text of an error
)

// text is some sentences in one place. Code in it is the word CODE.
type text struct {
	kind kind
	line int
	body string
}

// sentence is one of them.
type sentence struct {
	text  string
	words int
}

var (
	spaces = regexp.MustCompile(`\s+`)
	// end is where a sentence ends: a mark, perhaps a closing one, and a beginning.
	end = regexp.MustCompile(`([.!?]["')\]*]*)\s+["'(\[*]*[A-Z0-9]`)
	// short are marks that end nothing.
	short = regexp.MustCompile(`\b(e\.g|i\.e|vs|cf|etc|No)\.$`)
)

// sentences splits a text.
func (t text) sentences() (all []sentence) {
	body := strings.TrimSpace(spaces.ReplaceAllString(t.body, " "))
	for body != "" {
		at := len(body)
		for from := 0; ; {
			m := end.FindStringSubmatchIndex(body[from:])
			if m == nil {
				break
			}
			if stop := from + m[3]; !short.MatchString(body[:stop]) {
				at = stop
				break
			}
			from += m[3]
		}
		one := strings.TrimSpace(body[:at])
		body = strings.TrimSpace(body[at:])
		all = append(all, sentence{one, words(one)})
	}
	return all
}

// words counts what is read as a word: CODE is one, a dash none.
func words(s string) (n int) {
	for _, w := range strings.Fields(s) {
		if strings.ContainsAny(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") {
			n++
		}
	}
	return n
}
