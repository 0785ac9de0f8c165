package service

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

const tofuExchange = "testdata/tofu-1.12.6.jsonl"

// tofuRequest is a request of OpenTofu, and the answer.
type tofuRequest struct {
	Test   string          `json:"test"`
	Caller string          `json:"caller"` // whose token it had
	Type   string          `json:"type"`   // Content-Type
	Method string          `json:"method"`
	Path   string          `json:"path"` // with the query
	Body   json.RawMessage `json:"body"`
	Status int             `json:"status"`
}

// tofuLines are the callers of these tests.
var tofuLines = []string{"one %s lock *", "two %s lock *", "admin %s lock,revoke *"}

// The requests of a real OpenTofu, from a run of the tests above.
func TestTofuRecorded(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(tofuExchange)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string][]tofuRequest{}
	for line := range strings.Lines(string(text)) {
		var e tofuRequest
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		tests[e.Test] = append(tests[e.Test], e)
	}
	if len(tests) < 5 {
		t.Errorf("%d tests are recorded", len(tests))
	}
	for name, sent := range tests {
		t.Run(name, func(t *testing.T) {
			known, list := tofuAccess(t, tofuLines...)
			tokens := map[string]string{"nobody": "wrong"}
			for i, line := range tofuLines {
				tokens[strings.Fields(line)[0]] = list[i]
			}
			_, base := plainly(t, store(t).Engine(), &Options{Access: known})
			for i, e := range sent {
				var got reply
				headers := append(basic(tokens[e.Caller]), "Content-Type", e.Type)
				// A lock that ended by its TTL does so again: ask until it has.
				again := e.Method == "LOCK" && e.Status == 200
				until(t, fmt.Sprintf("request %d: %s %s is not answered with %d", i, e.Method, e.Body, e.Status), func() bool {
					got = send(t, e.Method, base+e.Path, string(e.Body), headers...)
					return got.status == e.Status || !again
				})
				if got.status != e.Status {
					t.Fatalf("request %d: %s %s: %d %s, want %d", i, e.Method, e.Body, got.status, got.text, e.Status)
				}
			}
		})
	}
}
