// Package page puts what a tool has measured into a page that people write.
package page

import (
	"fmt"
	"os"
	"strings"
)

// Markers returns the lines between which the text of that name stands.
func Markers(name string) (begin, end string) {
	return "<!-- bench:" + name + ":begin -->\n", "<!-- bench:" + name + ":end -->"
}

// Put replaces what stands between the markers of that name in a file. It fails if the file
// has no such markers.
func Put(path, name, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := Markers(name)
	before, rest, found := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no markers %q and %q: put both where the text is to stand", path, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
