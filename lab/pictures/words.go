package main

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"leasehold/lab/internal/svg"
)

// seconds is a moment of a timeline.
func seconds(at float64) string { return strconv.FormatFloat(at, 'f', 2, 64) + " s" }

// capital is a text as a sentence begins.
func capital(text string) string {
	r, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(r)) + text[n:]
}

// wrap breaks a text into lines that fit the room in the widest font. A word that does not
// fit a line by itself is broken, too.
func wrap(text string, size, room float64) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && svg.Width(line+" "+word, size) <= room {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		line = word
		for line != "" && svg.Width(line, size) > room {
			n := fitting(line, size, room)
			lines = append(lines, line[:n])
			line = line[n:]
		}
	}
	return append(lines, line)
}

// fitting is how many bytes of a word fit, and one character at least.
func fitting(word string, size, room float64) int {
	_, n := utf8.DecodeRuneInString(word)
	for i := range word {
		if i > 0 && svg.Width(word[:i], size) > room {
			break
		}
		n = max(n, i)
	}
	return n
}
