package check

import (
	"fmt"
	"testing"
)

// What a strike did is told from the history: who lost what, when they and the next ones knew,
// and for how long two held. What has nothing to do with it is left out.
func TestEffects(t *testing.T) {
	const held = "0 c1 A lock n\n1 A ok 1\n2 A mark\n50 c2 B lock n\n"
	for _, r := range []struct{ name, text, want string }{
		{"a lease that goes on", held + "100 strike 1 stop server\n101 bit 1\n200 heal 1\n300 A unlock\n301 A! ok\n302 B ok 2\n303 B mark\n",
			"1: struck true, 1 held, 0 ended, learned [], next [], overlap 0s"},
		{"a lease that is lost", held + "100 strike 1 stop server\n101 bit 1\n200 heal 1\n400 A lost\n450 B ok 2\n460 B mark\n",
			"1: struck true, 1 held, 1 ended, learned [300ms], next [350ms], overlap 0s"},
		{"a loss that Unlock tells", held + "100 strike 1 stop server\n200 heal 1\n400 A unlock\n420 A! gone\n450 B ok 2\n",
			"1: struck false, 1 held, 1 ended, learned [320ms], next [350ms], overlap 0s"},
		{"a client that is killed", held + "100 strike 1 kill c1\n101 bit 1\n101 heal 1\n105 exit c1\n900 B ok 2\n",
			"1: struck true, 1 held, 1 ended, learned [], next [800ms], overlap 0s"},
		{"nobody waited", "0 c1 A lock n\n1 A ok 1\n2 A mark\n100 strike 1 kill c1\n101 bit 1\n101 heal 1\n105 exit c1\n5000 c2 B lock n\n5001 B ok 2\n",
			"1: struck true, 1 held, 1 ended, learned [], next [], overlap 0s"},
		{"only the client that was hit waited", "0 c1 A lock n\n1 A ok 1\n50 c1 B lock n\n100 strike 1 kill c1\n101 heal 1\n105 exit c1\n500 c2 C lock n\n501 C ok 2\n",
			"1: struck false, 1 held, 1 ended, learned [], next [], overlap 0s"},
		{"a lease of another client", held + "100 strike 1 kill c2\n101 bit 1\n101 heal 1\n105 exit c2\n",
			"1: struck true, 0 held, 0 ended, learned [], next [], overlap 0s"},
		{"a lease that had been given up", held + "90 A unlock\n100 strike 1 stop server\n105 A! gone\n",
			"1: struck false, 0 held, 0 ended, learned [], next [], overlap 0s"},
		{"a lease that is not exclusive", "0 c1 A lock n shared\n1 A ok 1\n100 strike 1 stop server\n200 A lost\n",
			"1: struck false, 0 held, 0 ended, learned [], next [], overlap 0s"},
		{"a lease that was revoked", held + "99 c3 R revoke n\n100 strike 1 stop server\n110 R ok\n200 A lost\n",
			"1: struck false, 0 held, 0 ended, learned [], next [], overlap 0s"},
		{"a loss by the next strike", held + "100 strike 1 stop server\n110 heal 1\n200 strike 2 stop server\n300 A lost\n",
			"1: struck false, 1 held, 0 ended, learned [], next [], overlap 0s; 2: struck false, 1 held, 1 ended, learned [100ms], next [], overlap 0s"},
		{"two that hold for a while", held + "100 strike 1 forget server\n101 bit 1\n102 heal 1\n110 B ok 2\n120 B mark\n200 A mark\n210 A lost\n300 B mark\n",
			"1: struck true, 1 held, 1 ended, learned [110ms], next [10ms], overlap 80ms"},
		{"two that held before", held + "60 B ok 2\n70 B mark\n80 B mark\n90 A mark\n100 strike 1 stop server\n",
			"1: struck false, 2 held, 0 ended, learned [], next [], overlap 0s"},
	} {
		t.Run(r.name, func(t *testing.T) {
			all, err := Effects(build(t, declares(), r.text))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for i, e := range all {
				if i > 0 {
					got += "; "
				}
				got += fmt.Sprintf("%d: struck %v, %d held, %d ended, learned %v, next %v, overlap %v", e.Fault, e.Struck, e.Held, e.Ended, e.Learned, e.Next, e.Overlap)
			}
			if got != r.want {
				t.Errorf("got  %s\nwant %s", got, r.want)
			}
		})
	}
}
