package servers

import "strings"

// commandCounter reads what Redis clients send (RESP arrays of bulk strings,
// or lines) piece by piece, and finds each command's name. It keeps at most the
// first two words.
type commandCounter struct {
	args   int    // still to come of this command; 0: between commands
	bulk   int    // bytes still to come of this argument, its line end included
	number []byte // the line being read
	words  []string
	word   []byte
}

// Longest word and line worth keeping.
const maxWord = 32

// twoWords are commands whose second word says what they do.
var twoWords = map[string]bool{"CLIENT": true, "CLUSTER": true, "CONFIG": true, "SCRIPT": true, "ACL": true, "SENTINEL": true, "COMMAND": true}

func (k *commandCounter) feed(b []byte, found func(string)) {
	for len(b) > 0 {
		if k.bulk > 0 {
			n := min(k.bulk, len(b))
			if room := maxWord - len(k.word); room > 0 && len(k.words) < 2 {
				k.word = append(k.word, b[:min(n, room)]...)
			}
			b = b[n:]
			if k.bulk -= n; k.bulk == 0 {
				k.endArgument(found)
			}
			continue
		}
		c := b[0]
		b = b[1:]
		if c != '\n' {
			if len(k.number) < maxWord {
				k.number = append(k.number, c)
			}
			continue
		}
		line := strings.TrimSuffix(string(k.number), "\r")
		k.number = k.number[:0]
		switch {
		case line == "":
		case line[0] == '*':
			k.args = atoi(line[1:])
		case line[0] == '$' && k.args > 0:
			k.bulk = atoi(line[1:]) + 2
		default: // an inline command
			found(strings.ToUpper(strings.Fields(line + " ?")[0]))
		}
	}
}

func (k *commandCounter) endArgument(found func(string)) {
	if len(k.words) < 2 {
		w := strings.TrimSuffix(strings.TrimSuffix(string(k.word), "\n"), "\r")
		k.words = append(k.words, strings.ToUpper(w))
	}
	k.word = k.word[:0]
	if k.args--; k.args > 0 {
		return
	}
	name := k.words[0]
	if len(k.words) > 1 && twoWords[name] {
		name += " " + k.words[1]
	}
	k.words = k.words[:0]
	found(name)
}

func atoi(s string) (n int) {
	for _, c := range s {
		if c < '0' || c > '9' {
			return n
		}
		n = 10*n + int(c-'0')
	}
	return n
}
