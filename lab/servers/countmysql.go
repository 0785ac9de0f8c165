package servers

import (
	"fmt"
	"strings"
)

// NewMySQLProxy starts a proxy to a MySQL or MariaDB. Its commands are the first words
// of statements ("CALL", "SET") and, of what is no statement, "prepare", "execute",
// "close", "ping" and "quit".
func NewMySQLProxy(target string) (*Proxy, error) {
	return newProxy(target, func() counter { return &mysqlCounter{} })
}

// mysqlCounter reads what MySQL's clients send: packets with their length and their
// number before them. A command begins with number 0; greetings and answers go on with
// the numbers of what they answer.
type mysqlCounter struct {
	head []byte // length and number of this packet, as far as they came
	text []byte // the beginning of the rest
	left int    // bytes still to come of it
}

const mysqlHead = 4

// comQuery is the command with a statement as text.
const comQuery = 3

// mysqlCommands are the other ones that lockers send (the protocol's command phase).
var mysqlCommands = map[byte]string{1: "quit", 14: "ping", 22: "prepare", 23: "execute", 25: "close"}

func (k *mysqlCounter) feed(b []byte, found func(string)) {
	for len(b) > 0 {
		if len(k.head) < mysqlHead {
			n := min(mysqlHead-len(k.head), len(b))
			k.head, b = append(k.head, b[:n]...), b[n:]
			if len(k.head) < mysqlHead {
				return
			}
			k.left = int(k.head[0]) | int(k.head[1])<<8 | int(k.head[2])<<16
		}
		n := min(k.left, len(b))
		if len(k.text) < maxWord {
			k.text = append(k.text, b[:min(n, maxWord-len(k.text))]...)
		}
		k.left, b = k.left-n, b[n:]
		if k.left > 0 {
			return
		}
		if k.head[3] == 0 && len(k.text) > 0 {
			found(k.name())
		}
		k.head, k.text = k.head[:0], k.text[:0]
	}
}

func (k *mysqlCounter) name() string {
	if k.text[0] == comQuery {
		return strings.Fields(string(k.text[1:]) + " ?")[0]
	}
	if name, known := mysqlCommands[k.text[0]]; known {
		return name
	}
	return fmt.Sprint("command ", k.text[0])
}
