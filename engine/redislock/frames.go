package redislock

import (
	"bytes"
	"strconv"
)

// frames follows a stream of Redis' protocol (RESP 2 and 3), to know where its
// messages end.
type frames struct {
	rest   []byte // the beginning of a message
	broken bool   // it is no such stream, for good
}

// feed takes the next bytes of the stream.
func (f *frames) feed(b []byte) {
	if f.broken {
		return
	}
	if len(f.rest) > 0 {
		b = append(f.rest, b...)
	}
	for len(b) > 0 {
		n := span(b)
		if n < 0 {
			f.broken = true
			return
		}
		if n == 0 {
			break
		}
		b = b[n:]
	}
	f.rest = bytes.Clone(b) // what it was cut from is the caller's
}

// between reports that what was fed ends with the end of a message.
func (f *frames) between() bool { return !f.broken && len(f.rest) == 0 }

// longestText is the most that Redis allows a text to have, and more than any
// list has elements.
const longestText = 512 << 20

// span is the length of the message that b begins with: 0 if it is not all
// there, negative if there is none.
func span(b []byte) int {
	used := 0
	for open := 1; open > 0; open-- { // messages to come until it is whole
		line := bytes.IndexByte(b[used:], '\n')
		switch {
		case line < 0:
			return 0
		case line < 2:
			return -1
		}
		kind, text := b[used], b[used+1:used+line-1]
		used += line + 1
		switch kind {
		case '+', '-', ':', '_', '#', ',', '(':
			continue
		}
		n, err := strconv.Atoi(string(text))
		if err != nil || n < -1 || n > longestText {
			return -1
		}
		if n = max(n, 0); text[0] == '-' {
			continue // null
		}
		switch kind {
		case '$', '=', '!':
			used += n + len("\r\n")
		case '*', '>', '~':
			open += n
		case '%':
			open += 2 * n
		case '|': // about the message that follows
			open += 2*n + 1
		default:
			return -1
		}
		if used > len(b) {
			return 0
		}
	}
	return used
}

// parse reads a message that is a list of texts. Its length is 0 if b does not
// begin with one.
func parse(b []byte) (message []string, size int) {
	n := span(b)
	if n <= 0 || b[0] != '*' && b[0] != '>' {
		return nil, 0
	}
	for rest := b[bytes.IndexByte(b, '\n')+1 : n]; len(rest) > 0; {
		line := bytes.IndexByte(rest, '\n')
		length, err := strconv.Atoi(string(rest[1 : line-1]))
		if rest[0] != '$' || rest[1] == '-' || err != nil {
			return nil, 0
		}
		rest = rest[line+1:]
		message = append(message, string(rest[:length]))
		rest = rest[length+len("\r\n"):]
	}
	if message == nil {
		return nil, 0
	}
	return message, n
}
