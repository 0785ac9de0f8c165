package servers

import (
	"reflect"
	"testing"
)

func TestMySQLCommandsAreCountedHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	packet := func(number byte, text string) string {
		return string([]byte{byte(len(text)), byte(len(text) >> 8), 0, number}) + text
	}
	said := packet(1, "\x03greeting") + packet(0, "\x03SET x = 1") + packet(3, "\x03CALL no command") +
		packet(0, "\x03CALL `a`()") + packet(0, "\x16SELECT ?") + packet(0, "\x17....") + packet(0, "\x01")
	want := []string{"SET", "CALL", "prepare", "execute", "quit"}
	for size := 1; size <= len(said); size++ {
		var got []string
		var k mysqlCounter
		for rest := []byte(said); len(rest) > 0; {
			n := min(size, len(rest))
			k.feed(rest[:n], func(name string) { got = append(got, name) })
			rest = rest[n:]
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("in pieces of %d bytes: %q", size, got)
		}
	}
}
