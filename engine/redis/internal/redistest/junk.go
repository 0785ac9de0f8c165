package redistest

import (
	"math/rand/v2"
	"strings"
)

// Junk is a value of a field, of a string or of a list: numbers that are none, too
// large or too long, bytes, nothing.
func Junk(rnd *rand.Rand) string {
	all := []string{
		"", "0", "-1", "1.5", "nan", "-nan", "inf", "1e400", "0x10", "08", " 1", "9007199254740990", "9007199254740991", "9007199254740993",
		"9223372036854775807", "-9223372036854775808", "18446744073709551616", strings.Repeat("9", 400), strings.Repeat("x", 5000),
		"\x00\xff\n\"{}", "1 2 3", "1 1 owner", "1 99999999999999999999 owner", "99999999999999999 1 owner", "9007199254740991 9007199254740991 o", "read", "write",
		"10000", "20000",
	}
	return all[rnd.IntN(len(all))]
}

// Wrong are commands that put something of another type at a key, "?".
var Wrong = [][]string{
	{"SET", "?", "v"}, {"RPUSH", "?", "v"}, {"SADD", "?", "v"}, {"ZADD", "?", "1", "v"}, {"HSET", "?", "f", "v"}, {"XADD", "?", "1-1", "f", "v"},
	{"HSET", "?", "", ""}, {"PFADD", "?", "v"},
}
