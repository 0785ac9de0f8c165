package engines

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

func TestOpensWhatItLists(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	for _, rawURL := range []string{"mem:", "dir://" + filepath.ToSlash(dir), "DIR://" + filepath.ToSlash(dir), "dir:", ""} {
		t.Run(rawURL, func(t *testing.T) {
			eng, err := Open(t.Context(), rawURL)
			if err != nil {
				t.Fatal(err)
			}
			defer eng.Close()
			r := engine.Request{Name: "a", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: engine.MinTTL}
			if c, err := eng.Join(t.Context(), r); err != nil || c.State != engine.Held {
				t.Fatalf("Join: %v, %v", c.State, err)
			}
		})
	}
}

func TestTwoOfOneDirectoryExclude(t *testing.T) {
	rawURL := "dir://" + filepath.ToSlash(t.TempDir())
	var states []engine.State
	for range 2 {
		eng, err := Open(t.Context(), rawURL)
		if err != nil {
			t.Fatal(err)
		}
		defer eng.Close()
		c, err := eng.Join(t.Context(), engine.Request{
			Name: "a", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: engine.MaxTTL,
		})
		if err != nil {
			t.Fatal(err)
		}
		states = append(states, c.State)
	}
	if states[0] != engine.Held || states[1] != engine.Waiting {
		t.Fatalf("the first is %v, the second %v", states[0], states[1])
	}
}

func TestRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for rawURL, want := range map[string]string{
		"zookeeper-ng://host/": "unknown scheme",
		"/var/lib/locks":       "has no scheme",
		"locks":                "has no scheme",
		"./a:b":                "has no scheme",
		"mem:shared":           "no text after the colon",
		"dir://var/lib":        "three slashes, dir:///var/lib",
		"dir:///a?froce=true":  "unknown option \"froce\"",
		"dir:///a?force=maybe": "force is neither true nor false",
		"dir:///a?force=1;b":   "semicolon",
		"dir:///a%00b":         "NUL",
		"dir:///a#b":           "%23",
		"dir:///a%zz":          "invalid URL escape",
		"dir:a%zz":             "invalid URL escape",
	} {
		t.Run(rawURL, func(t *testing.T) {
			eng, err := Open(t.Context(), rawURL)
			if err == nil {
				eng.Close()
				t.Fatal("opened")
			}
			if !strings.HasPrefix(err.Error(), fmt.Sprintf("engine %q", Redact(rawURL))) || !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not begin with the URL and say %q", err, want)
			}
			if strings.Contains(want, "scheme") {
				for _, s := range Schemes() {
					if !strings.Contains(err.Error(), s.Usage) {
						t.Errorf("%q does not list %q", err, s.Usage)
					}
				}
			}
		})
	}
}

func TestDirOf(t *testing.T) {
	for rawURL, want := range map[string]string{
		"dir:":                       "",
		"dir://":                     "",
		"dir:///a/b":                 "/a/b",
		"dir:/a/b":                   "/a/b",
		"dir:a/b":                    "a/b",
		"dir:./a":                    "./a",
		"dir:///a%20b%3Fc":           "/a b?c",
		"dir:a%20b":                  "a b",
		"dir:///a?force=true":        "/a forced",
		"dir:a?force=1":              "a forced",
		"dir:?force=true":            " forced",
		"dir:///a?force=false":       "/a",
		"dir:///a?":                  "/a",
		"dir:///caf%C3%A9/%F0%9F%94": "/caf\u00e9/\xf0\x9f\x94",
	} {
		got, o, err := dirOf(rawURL)
		if err != nil {
			t.Errorf("%s: %v", rawURL, err)
			continue
		}
		if got = filepath.ToSlash(got); o.Force {
			got += " forced"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", rawURL, got, want)
		}
	}
}

func TestRedact(t *testing.T) {
	for rawURL, want := range map[string]string{
		"":                                    "",
		"dir:///a/b":                          "dir:///a/b",
		"redis://localhost:1/2":               "redis://localhost:1/2",
		"redis://sesame@host":                 "redis://xxxxx@host",
		"redis://me:@host":                    "redis://me:@host",
		"redis://sesame@host?password=open":   "redis://xxxxx@host?password=xxxxx",
		"rediss://h?password-file=/run/pw":    "rediss://h?password-file=/run/pw",
		"redis://me:sesame@host:1/2?a=b":      "redis://me:xxxxx@host:1/2?a=b",
		"redis://:sesame@host":                "redis://:xxxxx@host",
		"redis://me:se/s?a#m@e@h1:1,h2:2/0":   "redis://me:xxxxx@h1:1,h2:2/0",
		"redis://h?password=sesame&db=1":      "redis://h?password=xxxxx&db=1",
		"redis://h?a=1&sentinel_PASSWORD=ses": "redis://h?a=1&sentinel_PASSWORD=xxxxx",
		"redis://h?%70assword=sesame#x":       "redis://h?%70assword=xxxxx#x",
		"redis://h?auth_token=":               "redis://h?auth_token=",
	} {
		got := Redact(rawURL)
		if got != want {
			t.Errorf("%q: %q, want %q", rawURL, got, want)
		}
		if HasSecret(rawURL) != strings.Contains(strings.Replace(want, "//"+hidden, "", 1), hidden) {
			t.Errorf("%q: HasSecret is %v", rawURL, HasSecret(rawURL))
		}
	}
}

// Whatever follows the ? is known to an engine or refused, before anybody is spoken
// to: a parameter that was misspelt must not be one that is missing.
func TestUnknownParametersAreRefused(t *testing.T) {
	for _, s := range Schemes() {
		for _, name := range s.Names {
			t.Run(name, func(t *testing.T) {
				rawURL := nobody(t, name) + "?frobnicate=sesame"
				if name == "mem" {
					rawURL = "mem:?frobnicate=sesame"
				}
				eng, err := Open(t.Context(), rawURL)
				if err == nil {
					eng.Close()
				}
				if !errors.Is(err, ErrURL) {
					t.Fatalf("opened %s: %v", rawURL, err)
				}
				if name != "mem" && !strings.Contains(err.Error(), "frobnicate") {
					t.Errorf("it does not say what is unknown: %v", err)
				}
			})
		}
	}
}

// nobody is a URL of that scheme at which nobody listens.
func nobody(t *testing.T, scheme string) string {
	t.Helper()
	return at(scheme, func(network string) string {
		if network == "unix" {
			return filepath.ToSlash(filepath.Join(t.TempDir(), "none"))
		}
		return servers.Nobody
	})
}

// at is a URL of that scheme of addresses, or of a path where the scheme has one.
func at(scheme string, addr func(network string) string) string {
	switch {
	case scheme == "dir", strings.HasSuffix(scheme, "unix"):
		return scheme + "://" + addr("unix")
	case strings.HasPrefix(scheme, "redlock"):
		return scheme + "://" + addr("tcp") + "," + addr("tcp") + "," + addr("tcp")
	case strings.HasSuffix(scheme, "sentinel"):
		return scheme + "://" + addr("tcp") + "/primary"
	case scheme == "mysql", scheme == "mariadb", strings.HasPrefix(scheme, "postgres"):
		return scheme + "://me@" + addr("tcp") + "/database"
	}
	return scheme + "://" + addr("tcp")
}

// Whatever a password is made of, no error shows it: an engine may quote the
// URL or any part of it, escaped or not.
func TestErrorsShowNoPassword(t *testing.T) {
	cause := errors.New("cause")
	check := func(noise string) bool {
		password := "7?/@:%#;,\\\"" + noise + "sesame"
		rawURL := "redis://me:" + password + "@host:1/0"
		for _, said := range []string{rawURL, password, strconv.Quote(rawURL), fmt.Sprintf("%q after host", password), url.PathEscape(password), url.UserPassword("me", password).String(), "parse \"" + rawURL + "\": bad", "port " + password + " after host"} {
			err := conceal(rawURL, errors.Join(errors.New(said), cause))
			if strings.Contains(err.Error(), "sesame") || !errors.Is(err, cause) {
				t.Logf("%q", err)
				return false
			}
		}
		_, err := Open(context.Background(), "x"+rawURL)
		return err != nil && !strings.Contains(err.Error(), "sesame")
	}
	if err := quick.Check(check, nil); err != nil {
		t.Fatal(err)
	}
	for _, rawURL := range []string{"dir://me:sesame@host/", "mem:?password=sesame", "sesame?password=sesame"} {
		_, err := Open(t.Context(), rawURL)
		if err == nil || strings.Contains(strings.TrimPrefix(err.Error(), `engine "sesame`), "sesame") {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
}

// A password whose special characters somebody forgot to escape is in no error, in no
// piece of three letters, whether the engine says it or Open. No piece is looked up as a
// host either.
func TestNoPieceOfAPasswordIsShownOrLookedUp(t *testing.T) {
	resolver := net.DefaultResolver
	defer func() { net.DefaultResolver = resolver }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a host is looked up")
		return nil, errors.New("nobody knows it")
	}}
	for _, s := range Schemes() {
		for _, name := range s.Names {
			if name == "dir" || name == "mem" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				for _, form := range []string{
					":qzx/wvj@", "me:qzx/wvj@", "me:1/qzxwvj@", "me:qzx?wvj@", "me:qzx?wvj=1@", "me:1?layout=qzx&wvj=1@", "me:qzx#wvj@", "me:1#qzx/wvj@",
					"me:qzx%zzwvj@", "me:1@qzx/wvj@", "me:1@qzx?wvj@", "me:qzx,wvj/kbk@", "me:1,qzx?wvj@", "me:qzx&wvj;kbk@", "me:[qzx]/wvj@",
				} {
					rawURL := strings.Replace(nobody(t, name), "://", "://"+form, 1)
					rawURL = strings.Replace(rawURL, "@me@", "@", 1)
					for by, open := range map[string]func(context.Context, string) (engine.Engine, error){"the engine": s.open, "Open": Open} {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
						eng, err := open(ctx, rawURL)
						cancel()
						if err == nil {
							eng.Close()
							t.Fatalf("%s: %s opened it", rawURL, by)
						}
						for _, piece := range []string{"qzx", "wvj", "kbk"} {
							if strings.Contains(err.Error(), piece) {
								t.Errorf("%s: %s shows %s: %v", rawURL, by, piece, err)
							}
						}
						if strings.ContainsAny(form, "/?") && !errors.Is(err, ErrURL) {
							t.Errorf("%s: %s did not refuse it as a URL: %v", rawURL, by, err)
						}
					}
				}
			})
		}
	}
}

// A user without a password may be one by mistake. It is hidden where it stands as a user,
// and the words of an error stay.
func TestErrorsShowNoUserAlone(t *testing.T) {
	const rawURL = "postgres://lease@host/db"
	said := "run what leasehold prints at postgres://lease@host/db: failed to connect to `user=lease database=db`: " +
		"authentication failed for user \"lease\", access denied for user 'lease'@'host'"
	want := "engine \"postgres://xxxxx@host/db\": " + strings.NewReplacer("//lease@", "//xxxxx@", "user=lease", "user=xxxxx",
		`"lease"`, `"xxxxx"`, "'lease'", "'xxxxx'").Replace(said)
	if got := conceal(rawURL, errors.New(said)).Error(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// Every scheme of a server reaches its engine, which says that nobody answers.
func TestAServerThatIsNotThereIsAnErrorWithoutThePassword(t *testing.T) {
	for _, s := range Schemes() {
		for _, name := range s.Names {
			if name == "dir" || name == "mem" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rawURL := name + "://me:sesame@" + servers.Nobody
				switch {
				case strings.HasSuffix(name, "unix"):
					rawURL = name + "://me:sesame@" + filepath.ToSlash(filepath.Join(t.TempDir(), "none"))
				case strings.HasSuffix(name, "sentinel"):
					rawURL += "/primary"
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				eng, err := Open(ctx, rawURL)
				if err == nil {
					eng.Close()
					t.Fatal("opened")
				}
				if text := err.Error(); strings.Contains(text, "sesame") || strings.Contains(text, "scheme") {
					t.Error(text)
				}
			})
		}
	}
}

func TestRedisByURL(t *testing.T) {
	s := servers.Redis(t, &servers.RedisOptions{Password: "se/s@a#me"})
	rawURL := "redis://:" + url.PathEscape("se/s@a#me") + "@" + s.Addr
	eng, err := Open(t.Context(), rawURL)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	c, err := eng.Join(t.Context(), engine.Request{
		Name: "a", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: engine.MaxTTL,
	})
	if err != nil || c.State != engine.Held {
		t.Fatalf("Join: %v, %v", c.State, err)
	}
}
