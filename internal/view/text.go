package view

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"leasehold/engine"
)

// Printable escapes whatever a terminal or a page could obey or hide: control characters,
// of C1 too, marks that turn the direction of writing, bytes that are no UTF-8. Names and
// owners are what strangers wrote.
func Printable(s string) string {
	clean := true
	for _, r := range s {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !unicode.IsPrint(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// QuoteName shows a name so that it can be told from the words around it: plainly if it is
// plain.
func QuoteName(name string) string {
	for _, r := range name {
		if !unicode.IsPrint(r) || r == ' ' || r == '"' || r == '\\' || r == utf8.RuneError {
			return strconv.Quote(name)
		}
	}
	return name
}

// StateText is what a claim does, in words.
func StateText(c engine.Claim) string {
	switch {
	case c.Revoked:
		return "held, revoked"
	case c.State == engine.Held && c.Contended:
		return "held, wanted"
	}
	return c.State.String()
}
