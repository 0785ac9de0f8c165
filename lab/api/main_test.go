package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The tree exports what api/ says.
func TestTheAPIIsAsWritten(t *testing.T) {
	if err := run("../..", "../../api", false); err != nil {
		t.Error(err)
	}
}

// Each change of what users can write shows.
func TestChangesShow(t *testing.T) {
	const before = `package p

import "time"

const Most time.Duration = 5

type Options struct {
	TTL time.Duration
	own int
}

type Engine interface{ Join(name string) error }

func (o *Options) Check() error { return nil }

func New(o Options) (*Options, error) { return nil, nil }

var Wrong error

type ID [2]byte

func secret() {}
`
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		for name, body := range map[string]string{"go.mod": "module example.com/p\n\ngo 1.26\n", "p.go": text, "internal/q.go": "package q\n\nfunc F() {}\n"} {
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("GOWORK", "off")
	api := func() []byte {
		t.Helper()
		all, err := exported(dir, "./...")
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		return all["example.com.p.txt"]
	}
	write(before)
	was := api()
	for _, c := range []struct {
		from, to string
		shows    []string
	}{
		{"Duration = 5", "Duration = 6", []string{"- pkg example.com/p, const Most time.Duration = 5", "+ pkg example.com/p, const Most time.Duration = 6"}},
		{"	TTL time.Duration\n", "", []string{"- pkg example.com/p, type Options struct, TTL time.Duration"}},
		{"own int", "own string", nil},
		{"func secret() {}", "", nil},
		{"error }", "error; Leave() }", []string{
			"- pkg example.com/p, type Engine interface { Join }", "+ pkg example.com/p, type Engine interface { Join, Leave }",
			"+ pkg example.com/p, type Engine interface, Leave()",
		}},
		{"(o *Options) Check", "(o Options) Check", []string{"- pkg example.com/p, method (*Options) Check() error", "+ pkg example.com/p, method (Options) Check() error"}},
		{"New(o Options)", "New(o *Options)", []string{
			"- pkg example.com/p, func New(o Options) (*Options, error)", "+ pkg example.com/p, func New(o *Options) (*Options, error)",
		}},
		{"[2]byte", "[3]byte", []string{"- pkg example.com/p, type ID [2]byte", "+ pkg example.com/p, type ID [3]byte"}},
		{"var Wrong error", "", []string{"- pkg example.com/p, var Wrong error"}},
	} {
		write(strings.Replace(before, c.from, c.to, 1))
		got := difference(was, api())
		slices.Sort(got)
		slices.Sort(c.shows)
		if !slices.Equal(got, c.shows) {
			t.Errorf("%q became %q, and this shows:\n%s\nwant\n%s", c.from, c.to, strings.Join(got, "\n"), strings.Join(c.shows, "\n"))
		}
	}
}
