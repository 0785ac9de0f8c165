package clients

import (
	"bufio"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"leasehold/lab/servers"
)

// The resource of examples/python refuses stale tokens, and compares them as numbers. A read
// that shows a token ends the writes of those before, and one without a token ends nothing.
func TestPythonResource(t *testing.T) {
	t.Parallel()
	servers.Need(t, "python3")
	cmd := exec.CommandContext(t.Context(), "python3", "-B", "../../examples/python/resource.py", "0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		method, token, body string
		status              int
		says                string
	}{
		{"PUT", "9", `{"count": 1}`, 200, "1"},
		{"PUT", "10", `{"count": 2}`, 200, "2"},
		{"PUT", "10", `{"count": 3}`, 200, "3"},
		{"PUT", "9", `{"count": 4}`, 409, "stale"},
		{"GET", "", "", 200, "3"},
		{"PUT", "10", `{"count": 5}`, 200, "5"},
		{"GET", "11", "", 200, "5"},
		{"PUT", "10", `{"count": 6}`, 409, "stale"},
		{"GET", "10", "", 409, "stale"},
		{"GET", "0", "", 200, "5"},
		{"PUT", "11", `{"count": 7}`, 200, "7"},
	} {
		q, err := http.NewRequestWithContext(t.Context(), c.method, "http://127.0.0.1:"+strings.TrimSpace(port), strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Leasehold-Token", c.token)
		a, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != c.status || !strings.Contains(string(text), c.says) {
			t.Errorf("%s with %s: %d %s, %v, want %d that says %s", c.method, c.token, a.StatusCode, text, err, c.status, c.says)
		}
	}
}
