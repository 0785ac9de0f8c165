package plainlock

import (
	"strconv"
	"strings"
)

// side is the prefix of the keys beside the locks.
const side = "leasehold:plain:"

// keys are the lock and what is beside it, which Cluster must find in one slot
// (one script may not touch two). What a lock's key is others decided, so the
// other key has to follow it: see beside.
func (e *Engine) keys(name string) []string {
	key := e.prefix + name
	return []string{key, beside(key)}
}

// beside is a key in the same Cluster slot as a given one. Cluster hashes what
// stands between the first { and the next }, if that is not empty, else the
// whole key. So, told apart by one letter:
//
//	t key        the key has such a tag, and it stands first here too
//	n {key}      it has none: all of it becomes the tag
//	s {42} key   it has none but has a }, which would end the tag early: the
//	             smallest number that hashes to the same slot stands for it
func beside(key string) string {
	_, rest, open := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	switch {
	case open && closed && tag != "":
		return side + "t" + key
	case !strings.Contains(key, "}"):
		return side + "n{" + key + "}"
	}
	want := slot(key)
	for n := 0; ; n++ { // some 16,000 tries, for names that hardly anybody uses
		if s := strconv.Itoa(n); slot(s) == want {
			return side + "s{" + s + "}" + key
		}
	}
}

// nameOf is the name to which a key of beside belongs.
func (e *Engine) nameOf(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, side)
	if !ok || rest == "" {
		return "", false
	}
	form, rest := rest[0], rest[1:]
	switch form {
	case 't':
	case 'n':
		rest = strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}")
	case 's':
		_, rest, _ = strings.Cut(rest, "}")
	}
	name, ok = strings.CutPrefix(rest, e.prefix)
	return name, ok && beside(rest) == key
}

// slot is Cluster's hash of a string without a tag: CRC-16/XMODEM modulo 16384,
// as the Redis Cluster specification says.
func slot(s string) uint16 {
	var crc uint16
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}
