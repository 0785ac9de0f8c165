package redislock

import (
	"bytes"
	"strconv"
)

// frames follows a stream of Redis' protocol, to know where a message ends.
type frames struct {
	rest   []byte // the beginning of a message
	broken bool   // it is no such stream
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
			f.rest = nil
			return
		}
		if n == 0 {
			break
		}
		b = b[n:]
	}
	f.rest = append(f.rest[:0:0], b...)
}

// between reports that what was fed ended with the end of a message.
func (f *frames) between() bool { return !f.broken && len(f.rest) == 0 }

// span is the length of the message that b begins with: 0 if it is not all
// there, negative if it is none.
func span(b []byte) int {
	used := 0
	for open := 1; open > 0; open-- {
		line := bytes.IndexByte(b[used:], '\n')
		if line < 0 {
			return 0
		}
		if line < 2 {
			return -1
		}
		kind, text := b[used], b[used+1:used+line-1]
		used += line + 1
		switch kind {
		case '+', '-', ':', '_', '#', ',', '(':
		case '$', '=', '!':
			n, err := strconv.Atoi(string(text))
			if err != nil {
				return -1
			}
			if n >= 0 {
				used += n + 2
			}
		case '*', '>', '~', '%', '|':
			n, err := strconv.Atoi(string(text))
			if err != nil {
				return -1
			}
			switch {
			case n < 0:
			case kind == '|':
				open += 2*n + 1
			case kind == '%':
				open += 2 * n
			default:
				open += n
			}
		default:
			return -1
		}
		if used > len(b) {
			return 0
		}
	}
	return used
}

// parse reads a message that is a list of texts, and its length; 0 if b does not
// begin with one.
func parse(b []byte) (message []string, size int) {
	n := span(b)
	if n <= 0 || b[0] != '*' && b[0] != '>' {
		return nil, 0
	}
	rest := b[bytes.IndexByte(b, '\n')+1 : n]
	for len(rest) > 0 {
		if rest[0] != '$' {
			return nil, 0
		}
		line := bytes.IndexByte(rest, '\n')
		length, err := strconv.Atoi(string(rest[1 : line-1]))
		if err != nil || length < 0 {
			return nil, 0
		}
		message = append(message, string(rest[line+1:line+1+length]))
		rest = rest[line+1+length+2:]
	}
	return message, n
}
