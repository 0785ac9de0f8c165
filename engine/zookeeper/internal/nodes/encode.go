package nodes

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Encode makes the name of a lock the name of one node. What ZooKeeper takes as it
// is stays as it is, so that a path that others chose is found under the name that
// people would expect. The rest is written as %XX, byte by byte: a slash, the
// percent sign, control characters, what Java cannot have in a node's name, and
// the whole names ".", ".." and "zookeeper" (that one is the server's own, at the
// root) in their first byte.
func Encode(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if allowed(r) && !(i == 0 && reserved(name)) {
			b.WriteRune(r)
		} else {
			for _, c := range []byte(name[i : i+n]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		}
		i += n
	}
	return b.String()
}

func reserved(name string) bool { return name == "." || name == ".." || name == "zookeeper" }

// allowed follows org.apache.zookeeper.common.PathUtils.validatePath, which sees
// UTF-16: what lies beyond it is two surrogates, and refused.
func allowed(r rune) bool {
	switch {
	case r == '/' || r == '%':
		return false
	case r <= 0x1f || r >= 0x7f && r <= 0x9f:
		return false
	case r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0:
		return false
	}
	return true
}

// Decode is the name that Encode made a node's name of, if it did.
func Decode(node string) (name string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(node); i++ {
		if node[i] != '%' {
			b.WriteByte(node[i])
			continue
		}
		if i+2 >= len(node) {
			return "", false
		}
		var c byte
		if _, err := fmt.Sscanf(node[i+1:i+3], "%02X", &c); err != nil {
			return "", false
		}
		b.WriteByte(c)
		i += 2
	}
	name = b.String()
	return name, utf8.ValidString(name) && Encode(name) == node
}

// Session is the name of the node that a session has for itself, beside those of
// names. Nothing that Encode makes is like it.
func Session(id int64) string { return fmt.Sprintf("%%session-%016x", uint64(id)) }
