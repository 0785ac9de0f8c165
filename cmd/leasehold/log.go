package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode"

	"leasehold"
)

// The forms of --log.
const (
	logJSON = "json"
	logText = "text"
)

const logHelp = `write what happens to standard error as lines for programs, "json" or "text", in place of sentences for people`

// logAs has this process write lines in place of sentences. An empty form leaves it.
func (a *app) logAs(form string) error {
	o := slog.HandlerOptions{Level: slog.LevelDebug}
	switch form {
	case "":
	case logText:
		a.log = slog.New(slog.NewTextHandler(a.err, &o))
	case logJSON:
		o.ReplaceAttr = func(_ []string, at slog.Attr) slog.Attr {
			if at.Value.Kind() == slog.KindDuration {
				at.Value = slog.Float64Value(at.Value.Duration().Seconds()) // as --json has it elsewhere
			}
			return at
		}
		a.log = slog.New(slog.NewJSONHandler(safeJSON{a.err}, &o))
	default:
		return usageError("--log %q is neither %s nor %s", form, logJSON, logText)
	}
	return nil
}

// line writes a line of the log, if there is one.
func (a *app) line(level slog.Level, what string, args ...any) {
	if a.log != nil {
		a.log.Log(context.Background(), level, "leasehold: "+what, args...)
	}
}

// logEvent writes what the library tells. Renewals that succeed are no news.
func (a *app) logEvent(e leasehold.Event) {
	if e.Kind != leasehold.EventRenewed {
		leasehold.LogTo(a.log)(e)
	}
}

// safeJSON passes lines of JSON on as a terminal can take them: what strangers wrote may
// be in them.
type safeJSON struct{ to io.Writer }

func (s safeJSON) Write(b []byte) (int, error) {
	if _, err := io.WriteString(s.to, escapeJSON(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// escapeJSON writes what is not printable as \u escapes. Package json leaves C1 controls
// and the like as they are, which is right for a program and wrong for a terminal; as
// escapes they are the same text to both.
func escapeJSON(text string) string {
	var safe strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			safe.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&safe, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&safe, `\u%04x`, r)
		}
	}
	return safe.String()
}
