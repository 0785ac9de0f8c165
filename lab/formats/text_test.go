package formats

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A record says what bytes are with Go's escapes, and with marks in the place of what is
// another one at each run:
//
//	<client24:N>     the random name of a client, of 24 characters, the Nth that occurs
//	<us64:N+S>       eight bytes, big-endian: a time in microseconds, S seconds (in whole
//	                 minutes) after the beginning, and the Nth of all times in their order
//	<us:N+S> <ms:N+S> a time in decimal digits, in micro- or milliseconds
//
// Two equal times have equal marks.
type masks struct {
	base    time.Time
	times   []int64 // microseconds, in order
	clients []string
	client  *regexp.Regexp // how this engine's clients are called; nil: not at all
}

// digits finds the times that are written in decimal.
var digits = regexp.MustCompile(`[0-9]+`)

// isTime reports whether a number of microseconds is near the test.
func (m *masks) isTime(us int64) bool {
	d := time.UnixMicro(us).Sub(m.base)
	return d > -time.Minute && d < 4*time.Hour
}

// piece is a part of a value that is masked.
type piece struct {
	from, to int
	kind     string // us64, us, ms, client
	us       int64
	client   string
}

// pieces finds what is to be masked in a value.
func (m *masks) pieces(v string) (all []piece) {
	for i := 0; i+8 <= len(v); i++ {
		if us := binary.BigEndian.Uint64([]byte(v[i : i+8])); us < 1<<62 && m.isTime(int64(us)) {
			all = append(all, piece{from: i, to: i + 8, kind: "us64", us: int64(us)})
			i += 7
		}
	}
	for _, at := range digits.FindAllStringIndex(v, -1) {
		n, err := strconv.ParseInt(v[at[0]:at[1]], 10, 64)
		switch {
		case err != nil:
		case at[1]-at[0] == 16 && m.isTime(n):
			all = append(all, piece{from: at[0], to: at[1], kind: "us", us: n})
		case at[1]-at[0] == 13 && m.isTime(n*1000):
			all = append(all, piece{from: at[0], to: at[1], kind: "ms", us: n * 1000})
		}
	}
	if m.client != nil {
		for _, at := range m.client.FindAllStringIndex(v, -1) {
			all = append(all, piece{from: at[0], to: at[1], kind: "client", client: v[at[0]:at[1]]})
		}
	}
	slices.SortFunc(all, func(a, b piece) int { return a.from - b.from })
	return all
}

// learn takes in the times of a value. All values are learned before the first is masked.
func (m *masks) learn(v string) {
	for _, p := range m.pieces(v) {
		if p.kind != "client" && !slices.Contains(m.times, p.us) {
			m.times = append(m.times, p.us)
		}
	}
	slices.Sort(m.times)
}

// mask writes a value for the record.
func (m *masks) mask(v string) string {
	var b strings.Builder
	at := 0
	plain := func(to int) {
		q := strconv.QuoteToASCII(v[at:to])
		if !isText(v[at:to]) {
			q = quoteBytes(v[at:to])
		}
		b.WriteString(strings.NewReplacer("<", `\x3c`, `\"`, `"`).Replace(q[1 : len(q)-1]))
	}
	for _, p := range m.pieces(v) {
		if p.from < at {
			continue
		}
		plain(p.from)
		at = p.to
		if p.kind == "client" {
			n := slices.Index(m.clients, p.client)
			if n < 0 {
				n = len(m.clients)
				m.clients = append(m.clients, p.client)
			}
			fmt.Fprintf(&b, "<client%d:%d>", len(p.client), n+1)
			continue
		}
		seconds := time.UnixMicro(p.us).Sub(m.base).Round(time.Minute) / time.Second
		fmt.Fprintf(&b, "<%s:%d+%d>", p.kind, slices.Index(m.times, p.us)+1, seconds)
	}
	plain(len(v))
	return b.String()
}

func isText(v string) bool {
	return !strings.ContainsFunc(v, func(r rune) bool { return r == 0xfffd || r < ' ' })
}

// quoteBytes is strconv.Quote with each byte that is not printable ASCII as \x.
func quoteBytes(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(v) {
		switch {
		case c == '\\':
			b.WriteString(`\\`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + `"`
}

var mark = regexp.MustCompile(`<(us64|us|ms|client[0-9]+):([0-9]+)(?:\+(-?[0-9]+))?>`)

// unmask is the value that a text of a record stands for, as if it had been written at base.
func unmask(text string, base time.Time) (string, error) {
	var b strings.Builder
	for {
		at := mark.FindStringSubmatchIndex(text)
		head := text
		if at != nil {
			head = text[:at[0]]
		}
		plain, err := strconv.Unquote(`"` + strings.ReplaceAll(head, `"`, `\"`) + `"`)
		if err != nil {
			return "", fmt.Errorf("%q: %w", head, err)
		}
		b.WriteString(plain)
		if at == nil {
			return b.String(), nil
		}
		n, _ := strconv.Atoi(text[at[4]:at[5]])
		if kind := text[at[2]:at[3]]; strings.HasPrefix(kind, "client") {
			length, err := strconv.Atoi(strings.TrimPrefix(kind, "client"))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%0*d", length, n)
		} else {
			seconds, err := strconv.Atoi(text[at[6]:at[7]])
			if err != nil {
				return "", err
			}
			us := base.Add(time.Duration(seconds)*time.Second).UnixMicro() + int64(n)
			switch kind {
			case "us64":
				b.Write(binary.BigEndian.AppendUint64(nil, uint64(us)))
			case "us":
				fmt.Fprint(&b, us)
			case "ms":
				fmt.Fprint(&b, us/1000)
			}
		}
		text = text[at[1]:]
	}
}
