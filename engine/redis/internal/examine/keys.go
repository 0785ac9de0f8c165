package examine

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
	"leasehold/engine/redis/internal/redisconn"
)

// days is an expiry with which a dead owner keeps a name for days.
const days = 24 * time.Hour

// rights are those that reading keys needs.
const rights = "+scan +type +pttl +getrange +object|encoding +object|idletime +hrandfield ~*"

// besides is what Redisson's keys beside its locks begin with, and their types.
var besides = map[string]string{
	"redisson_lock_queue:": "list", "redisson_lock_timeout:": "zset", "redisson_lock_token:": "string",
	"redisson_unlock_latch:": "string",
}

// holders are the fields of the hash that is a lock of Redisson's: a client's uuid and
// a thread.
var holders = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+(:write)?$`)

// key is one of the store.
type key struct {
	name, kind string
	left       time.Duration // -1: it has no expiry
	idle       string        // for how long nobody used it, if the server knows
}

// Keys examines the keys of the store, as many as the limit allows.
func (s *Store) Keys(ctx context.Context) error {
	seen, stopped := 0, false
	for names, err := range s.Scan(ctx, "*", "") {
		if findings.Over(ctx, err) {
			return err
		}
		if err != nil {
			s.Unread("the keys"+s.Where, err, rights)
			return nil
		}
		if left := s.List.Limit - seen; len(names) > left {
			names, stopped = names[:left], true
		}
		seen += len(names)
		if err := s.batch(ctx, names); err != nil {
			if findings.Over(ctx, err) {
				return err
			}
			s.Unread("the keys"+s.Where, redisconn.Explain(err, ""), rights)
			return nil
		}
		if stopped {
			s.List.Stopped("%d keys%s were read", seen, s.Where)
			return nil
		}
	}
	return nil
}

// batch examines keys that one SCAN has found.
func (s *Store) batch(ctx context.Context, names []string) error {
	var questions []redisconn.Question
	for _, name := range names {
		questions = append(questions, about(name, "TYPE"), about(name, "PTTL"))
	}
	answers := s.AskMany(ctx, questions)
	var strings, hashes []key
	for i, name := range names {
		kind, err := answers[2*i].ToString()
		if err != nil {
			return err
		}
		left, err := answers[2*i+1].AsInt64()
		if err != nil {
			return err
		}
		k := key{name: name, kind: kind, left: -1}
		if left >= 0 {
			k.left = time.Duration(left) * time.Millisecond
		}
		switch {
		case kind == "none" || s.own(name): // it is gone, or no lock of others
		case s.beside(k):
		case kind == "string" && s.List.Counts(name):
			strings = append(strings, k)
		case kind == "hash":
			hashes = append(hashes, k)
		}
		s.wrongType(k)
	}
	if err := s.plain(ctx, strings); err != nil {
		return err
	}
	return s.redissons(ctx, hashes)
}

func about(key string, verb ...string) redisconn.Question {
	return redisconn.Question{Verb: verb, Key: key}
}

// own reports whether a key is leasehold's.
func (s *Store) own(name string) bool {
	return strings.HasPrefix(name, "leasehold:") || s.Ours != "" && strings.HasPrefix(name, s.Ours)
}

// beside reports whether a key is one that Redisson keeps beside its locks.
func (s *Store) beside(k key) bool {
	for begins := range besides {
		if strings.HasPrefix(k.name, begins) {
			return true
		}
	}
	return strings.Contains(k.name, ":rwlock_timeout:")
}

// wrongType examines whether Redisson could use a key that it would use.
func (s *Store) wrongType(k key) {
	if k.kind == "none" || s.own(k.name) {
		return
	}
	want := ""
	for begins, kind := range besides {
		if strings.HasPrefix(k.name, begins) {
			want = kind
		}
	}
	if want == "" && s.Redisson && s.List.Counts(k.name) && !s.beside(k) {
		want = "hash"
	}
	if want != "" && k.kind != want {
		s.List.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "a key of Redisson has the wrong type",
			Means: "Redisson's scripts fail on it with WRONGTYPE. Nobody can lock that name, and a holder cannot unlock it.",
			Do:    "Find the program that writes the key, give it another name, and delete the key while nobody holds the lock.",
		}, "%q%s is a %s where Redisson needs a %s", k.name, s.Where, k.kind, want)
	}
}

// plain examines strings that look like locks: of SET NX, SETNX or GETSET. Reading a value
// is a use of its key for the server, which would end the time without use that this
// examination prints. So only values that may be time stamps are read: numbers of keys
// without an expiry.
func (s *Store) plain(ctx context.Context, keys []key) error {
	var questions []redisconn.Question
	for _, k := range keys {
		questions = append(questions, about(k.name, "OBJECT", "ENCODING"), about(k.name, "OBJECT", "IDLETIME"))
	}
	answers := s.AskMany(ctx, questions)
	var numbers []key
	for i, k := range keys {
		encoding, err := answers[2*i].ToString()
		if err != nil {
			if rueidis.IsRedisNil(err) {
				continue // it is gone
			}
			return err
		}
		if n, err := answers[2*i+1].AsInt64(); err == nil { // an eviction policy of LFU does not know
			k.idle = fmt.Sprintf(", not used for %v", time.Duration(n)*time.Second)
		}
		switch {
		case k.left >= 0:
			s.lasts(k)
		case encoding == "int":
			numbers = append(numbers, k)
		default:
			s.endless(k)
		}
	}
	return s.numbers(ctx, numbers)
}

// numbers examines strings that are numbers and have no expiry.
func (s *Store) numbers(ctx context.Context, keys []key) error {
	const (
		most   = "31" // bytes
		shared = 9999 // up to here a number is one object for all keys, with one time without use
	)
	var questions []redisconn.Question
	for _, k := range keys {
		value := about(k.name, "GETRANGE")
		value.Args = []string{"0", most}
		questions = append(questions, value)
	}
	for i, answer := range s.AskMany(ctx, questions) {
		k := keys[i]
		value, err := answer.ToString()
		if err != nil {
			return err
		}
		at, ok := stamp(value)
		if ok && time.Since(at) > time.Minute { // no clock is as wrong as that
			s.List.Add(engine.Finding{
				Severity: engine.SeverityWarning, What: "a lock has a time stamp that has passed",
				Means: "The owner is dead or late. The next program takes the name over with GETSET by its own clock, and two clocks that disagree let two of them in.",
				Do:    "Look for the owner, then delete the key. Use a lock whose expiry the server decides.",
			}, "%q%s says %s", k.name, s.Where, at.UTC().Format(time.RFC3339))
			continue
		}
		if n, err := strconv.ParseInt(value, 10, 64); err != nil || n >= 0 && n <= shared {
			k.idle = ""
		}
		s.endless(k)
	}
	return nil
}

// endless reports a key without an expiry.
func (s *Store) endless(k key) {
	s.List.Add(engine.Finding{
		Severity: engine.SeverityWarning, What: "a lock key has no expiry",
		Means: "If its owner is dead, the name is blocked for ever: a program died between SETNX and EXPIRE, or never sets one.",
		Do:    "Find out whether the owner lives. If not, delete the key. Use SET with NX and PX in one command, or a lease.",
	}, "%q%s%s", k.name, s.Where, k.idle)
}

// lasts examines an expiry that is there.
func (s *Store) lasts(k key) {
	if k.left > days {
		s.List.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "a lock key expires in days",
			Means: "If its owner dies, nobody else gets the name for as long as that.",
			Do:    "Use an expiry of seconds, and renew it while the work goes on.",
		}, "%q%s in %v", k.name, s.Where, k.left.Round(time.Minute))
	}
}

// stamp reads a value that is a time in seconds, milliseconds, microseconds or nanoseconds
// since 1970, from 2001 on: as GETSET locks have it.
func stamp(value string) (at time.Time, ok bool) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 1_000_000_000 {
		return at, false
	}
	switch len(value) {
	case 10:
		return time.Unix(n, 0), true
	case 13:
		return time.UnixMilli(n), true
	case 16:
		return time.UnixMicro(n), true
	case 19:
		return time.Unix(0, n), n < math.MaxInt64
	}
	return at, false
}

// redissons examines hashes, those that are locks of Redisson's. It reads a few fields of
// each and no values, which may be large.
func (s *Store) redissons(ctx context.Context, keys []key) error {
	var questions []redisconn.Question
	for _, k := range keys {
		questions = append(questions, redisconn.Question{Verb: []string{"HRANDFIELD"}, Key: k.name, Args: []string{"16"}})
	}
	for i, a := range s.AskMany(ctx, questions) {
		fields, err := a.AsStrSlice()
		if err != nil {
			if re, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(re.Error(), "WRONGTYPE") {
				continue // it became another
			}
			return err
		}
		switch k := keys[i]; {
		case !lock(fields):
		case k.left < 0:
			s.List.Add(engine.Finding{
				Severity: engine.SeverityProblem, What: "a lock of Redisson has no expiry",
				Means: "No watchdog renews it, and it never ends by itself: the name is blocked until somebody deletes the key.",
				Do:    "Find out whether the client with that uuid lives. If not, call forceUnlock in Java, or delete the key.",
			}, "%q%s held by %s", k.name, s.Where, holder(fields))
		default:
			s.lasts(k)
		}
	}
	return nil
}

// lock reports whether fields are those of a lock of Redisson's.
func lock(fields []string) bool {
	found := false
	for _, f := range fields {
		switch {
		case holders.MatchString(f):
			found = true
		case f != "mode":
			return false
		}
	}
	return found
}

func holder(fields []string) string {
	return slices.Max(slices.DeleteFunc(fields, func(f string) bool { return f == "mode" }))
}
