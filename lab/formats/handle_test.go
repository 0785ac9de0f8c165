package formats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold/engine"
	"leasehold/internal/handle"
)

// Handles are the texts of detached leases. Scripts keep them, maybe longer than the version
// that wrote them.
func handles() []handle.Body {
	body := func(r engine.Request) handle.Body {
		return handle.Body{Name: r.Name, ID: r.ID, Token: 1767323045000001, Permits: r.Permits, Limit: r.Limit, TTL: ttl}
	}
	keyed := body(holder)
	keyed.Keyed = true
	named := holder
	named.Name = "ümlaut & <tag>"
	return []handle.Body{body(apart), body(reader1), body(permit1), keyed, body(named)}
}

func TestHandlesAreAsRecorded(t *testing.T) {
	path := filepath.Join("testdata", "handles.txt")
	var got strings.Builder
	for _, b := range handles() {
		text, err := b.Text()
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString(text + "\n")
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(recorded) {
		t.Errorf("the handles are\n%s\nand %s has\n%s", got.String(), path, recorded)
	}
	lines := strings.Fields(string(recorded))
	for i, want := range handles() {
		if i >= len(lines) {
			t.Fatalf("%s has %d handles, want %d", path, len(lines), len(handles()))
		}
		want.Secret = want.ID.Secret()
		if b, err := handle.Parse(lines[i]); err != nil || b != want {
			t.Errorf("%s is read as %+v, %v: want %+v", lines[i], b, err, want)
		}
	}
}
