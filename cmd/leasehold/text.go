package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable escapes whatever a terminal could obey or hide: control
// characters, of C1 too, marks that turn the direction of writing, bytes that
// are no UTF-8. Names and owners are what strangers wrote.
func printable(s string) string {
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

// brief leaves out the middle of a sentence that somebody's argument has made endless:
// what failed stands at its beginning, what to do at its end.
func brief(s string) string {
	const most, end = 2000, 1200 // the end of a URL's error lists all schemes
	if len(s) <= most {
		return s
	}
	first, last := s[:most-end], s[len(s)-end:]
	return strings.ToValidUTF8(first, "") + fmt.Sprintf(" ... (%d bytes) ... ", len(s)-len(first)-len(last)) + strings.ToValidUTF8(last, "")
}

// quoteName shows a name so that it can be told from the words around it:
// plainly if it is plain.
func quoteName(name string) string {
	plain := func(r rune) bool { return unicode.IsPrint(r) && r != ' ' && r != '"' && r != '\\' }
	for _, r := range name {
		if !plain(r) || r == utf8.RuneError {
			return strconv.Quote(name)
		}
	}
	return name
}

// writeJSON writes v and a newline, as a terminal can take it (see escapeJSON).
func writeJSON(w io.Writer, v any, indent string) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeJSON(b.String()))
	return err
}
