package page

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPutReplacesWhatStandsBetweenTheMarkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	begin, end := Markers("x")
	for before, after := range map[string]string{
		"a\n" + begin + "old\n" + end + "\nb\n": "a\n" + begin + "new\n" + end + "\nb\n",
		begin + end:                             begin + "new\n" + end,
		"no markers":                            "",
		begin + "no end":                        "",
		end + "\n" + begin + "in the other order\n":    "",
		"<!-- bench:y:begin -->\n<!-- bench:y:end -->": "",
	} {
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Put(path, "x", "new\n")
		got, readErr := os.ReadFile(path)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if after == "" && (err == nil || string(got) != before) || after != "" && (err != nil || string(got) != after) {
			t.Errorf("%q became %q, %v", before, got, err)
		}
	}
	if err := Put(filepath.Join(t.TempDir(), "none"), "x", ""); err == nil {
		t.Error("no file, and no error")
	}
}
