package examine

import (
	"testing"
	"time"
)

func TestTooOld(t *testing.T) {
	for version, want := range map[string]bool{
		"5.0.14": true, "6.0.16": true, "6.2.0": false, "7.0.15": false, "255.255.255": false, "": false, "vendor": false,
	} {
		if tooOld(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}

func TestTimeStamps(t *testing.T) {
	at := time.Date(2017, 7, 14, 2, 40, 0, 0, time.UTC)
	for value, want := range map[string]bool{
		"1500000000": true, "1500000000000": true, "1500000000000000": true, "1500000000000000000": true,
		"": false, "1": false, "150000000": false, "15000000000": false, "1500000000x": false, "-1500000000": false, "9223372036854775807": false,
	} {
		if got, ok := stamp(value); ok != want || ok && !got.Equal(at) {
			t.Errorf("%q: %v, %v", value, got.UTC(), ok)
		}
	}
}

func TestLocksOfRedisson(t *testing.T) {
	const client = "f3f2e3d8-5f1c-4b3a-9e59-0a5d3c1d2e4f"
	for _, c := range []struct {
		fields []string
		want   bool
	}{
		{[]string{client + ":41"}, true},
		{[]string{"mode", client + ":41", client + ":42"}, true},
		{[]string{"mode", client + ":41:write"}, true},
		{[]string{client + ":41", "name"}, false},
		{[]string{"mode"}, false},
		{nil, false},
		{[]string{client}, false},
	} {
		if lock(c.fields) != c.want {
			t.Errorf("%q: %v", c.fields, !c.want)
		}
	}
}
