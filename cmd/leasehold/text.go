package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"leasehold/internal/view"
)

// printable escapes what a terminal could obey or hide.
func printable(s string) string { return view.Printable(s) }

// quoteName shows a name so that it can be told from the words around it.
func quoteName(name string) string { return view.QuoteName(name) }

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
