// Package slots makes keys that Redis Cluster keeps together with a key whose
// form others decided. One script may not touch two slots, so what an engine
// keeps beside such a key has to follow it.
package slots

import (
	"strconv"
	"strings"
)

// Sides begin the keys beside others, of every package here: see Beside.
var Sides = []string{"leasehold:plain:", "leasehold:redlock:", "leasehold:redisson:", "leasehold:fence:"}

// Side is which of Sides begins a key that somebody chose. It could be the one beside
// another's, so no lock may be there.
func Side(key string) (side string, taken bool) {
	for _, side := range Sides {
		if strings.HasPrefix(key, side) {
			return side, true
		}
	}
	return "", false
}

// Beside is a key in the slot of a given one, beginning with prefix, which has no
// brace. Cluster hashes what stands between the first { and the next }, if that is
// not empty, else the whole key. So, told apart by one letter:
//
//	t key        the key has such a tag, and it stands first here too
//	n {key}      it has none: all of it becomes the tag
//	s {42} key   it has none but has a }, which would end the tag early: the
//	             smallest number that hashes to the same slot stands for it
func Beside(prefix, key string) string {
	switch {
	case tagged(key):
		return prefix + "t" + key
	case !strings.Contains(key, "}"):
		return prefix + "n{" + key + "}"
	}
	want := slot(key)
	for n := 0; ; n++ { // some 16,000 tries, for keys that hardly anybody uses
		if s := strconv.Itoa(n); slot(s) == want {
			return prefix + "s{" + s + "}" + key
		}
	}
}

// Tagged is what many libraries make of a key to have another in its slot: {key},
// or the key itself where it has a { already. Of some keys with a lone brace the
// result is in another slot, and together says so.
func Tagged(key string) (tag string, together bool) {
	if !strings.Contains(key, "{") {
		return "{" + key + "}", !strings.Contains(key, "}")
	}
	return key, tagged(key)
}

// tagged: Cluster hashes a part of the key.
func tagged(key string) bool {
	_, rest, open := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(rest, "}")
	return open && closed && tag != ""
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
