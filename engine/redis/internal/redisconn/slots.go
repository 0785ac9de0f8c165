package redisconn

import (
	"fmt"
	"strconv"
	"strings"

	"leasehold/engine"
)

// sides begin the keys that are kept beside others, by every package here: see
// KeyBeside.
var sides = []string{"leasehold:plain:", "leasehold:redlock:", "leasehold:redisson:", "leasehold:fence:"}

func sideOf(key string) (side string, taken bool) {
	for _, side := range sides {
		if strings.HasPrefix(key, side) {
			return side, true
		}
	}
	return "", false
}

// CheckKey refuses a lock whose key could be the one beside another's.
func CheckKey(key string) error {
	if side, taken := sideOf(key); taken {
		return Taken(key, side)
	}
	return nil
}

// Taken refuses a lock whose key has what tells the keys beside other locks.
func Taken(key, why string) error {
	return engine.Refuse("the key %q may be one beside another name's lock, since it has %q: choose another name", key, why)
}

// CheckPrefix refuses what must not begin the keys of an engine.
func CheckPrefix(prefix string) error {
	_, side := sideOf(prefix)
	switch {
	case strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("the prefix %q contains a brace, which would move its keys to another Cluster slot: leave it out", prefix)
	case side:
		return fmt.Errorf("the prefix %q begins like the keys that leasehold keeps beside other locks: choose another", prefix)
	case len(prefix) > 128:
		return fmt.Errorf("the prefix has %d bytes, more than 128: choose a shorter one", len(prefix))
	}
	return nil
}

// KeyBeside is a key in the slot of a given one, whose form others decided: one script
// may not touch two slots of a Cluster, so what an engine keeps beside such a key has
// to follow it. It begins with prefix, which has no brace. Cluster hashes what stands
// between the first { and the next }, if that is not empty, else the whole key. So,
// told apart by one letter:
//
//	t key        the key has such a tag, and it stands first here too
//	n {key}      it has none: all of it becomes the tag
//	s {42} key   it has none but has a }, which would end the tag early: the
//	             smallest number that hashes to the same slot stands for it
func KeyBeside(prefix, key string) string {
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
