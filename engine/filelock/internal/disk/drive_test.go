package disk

import "testing"

func TestTheDriveOfAPath(t *testing.T) {
	for final, want := range map[string]string{
		`\\?\C:\Users\a\locks`: `C:\`,
		`\\?\C:\`:              `C:\`,
		`\\?\Volume{4c1b02c1-d990-11dc-99ae-806e6f6e6963}\locks`: `\\?\Volume{4c1b02c1-d990-11dc-99ae-806e6f6e6963}\`,
		`\\?\UNC\server\share\locks`:                             "",
		`\\?\unc\server\share`:                                   "",
		`\\server\share\locks`:                                   "",
		`\\?\`:                                                   "",
		"":                                                       "",
	} {
		if got := driveOf(final); got != want {
			t.Errorf("%s is on %q, not on %q", final, got, want)
		}
	}
}
