package servers

import (
	"encoding/binary"
	"strings"
)

// statementCounter reads what PostgreSQL's clients send: a first message without a
// type, or several where encryption is asked for, and then messages with a type and
// their length before them. What has the server run something counts: "execute", and
// simple queries by their first word ("LISTEN", "BEGIN", "--" of pgx' ping). "prepare"
// is what a connection learns once.
type statementCounter struct {
	head  []byte // type and length of this message, as far as they came
	text  []byte // the beginning of a simple query
	left  int    // bytes still to come of it after those
	begun bool   // the first message has passed
}

// What clients may say before the first message with a type (the protocol's chapter on
// message formats).
const sslRequest, gssRequest = 80877103, 80877104

func (k *statementCounter) feed(b []byte, found func(string)) {
	for len(b) > 0 {
		size := 5
		if !k.begun {
			size = 4 // no type
		}
		if len(k.head) < size {
			n := min(size-len(k.head), len(b))
			k.head, b = append(k.head, b[:n]...), b[n:]
			if len(k.head) < size {
				return
			}
			k.left = int(binary.BigEndian.Uint32(k.head[size-4:])) - 4 // the length counts itself
		}
		n := min(k.left, len(b))
		if len(k.text) < maxWord {
			k.text = append(k.text, b[:min(n, maxWord-len(k.text))]...)
		}
		k.left, b = k.left-n, b[n:]
		if k.left > 0 {
			return
		}
		k.end(found)
		k.head, k.text = k.head[:0], k.text[:0]
	}
}

func (k *statementCounter) end(found func(string)) {
	if !k.begun {
		asks := uint32(0)
		if len(k.text) >= 4 {
			asks = binary.BigEndian.Uint32(k.text)
		}
		k.begun = asks != sslRequest && asks != gssRequest
		return
	}
	switch k.head[0] {
	case 'E':
		found("execute")
	case 'P':
		found("prepare")
	case 'Q':
		words := strings.Fields(strings.TrimRight(string(k.text), "\x00") + " ?")
		found(words[0])
	}
}
