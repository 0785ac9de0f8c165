// Readme does what the README says: it clones the last commit into a
// temporary folder and runs every ```sh block there, in order, with an empty
// home directory, as a newcomer would.
//
//	go run ./lab/readme [-skip 'make deps test'] [README.md]
//
// Two remarks, in lines of their own before a block, are for this program:
//
//	<!-- prints: REGEXP -->   the block's output must match
//	<!-- not run: WHY -->     the block is left out, and the reason is printed
//
// Go's own caches stay where they are: a newcomer's would fill themselves from
// the network, and what is tested here is the README. Everything else of the
// home directory is new, and gone afterwards.
//
// Go code in the README is built by this package's test.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

func main() {
	skip := flag.String("skip", "", "leave out the blocks that match this regular expression")
	flag.Parse()
	page := "README.md"
	if flag.NArg() > 0 {
		page = flag.Arg(0)
	}
	if err := check(page, *skip); err != nil {
		fmt.Fprintln(os.Stderr, "readme:", err)
		os.Exit(1)
	}
}

func check(page, skip string) error {
	without, err := regexp.Compile(skip)
	if err != nil {
		return fmt.Errorf("-skip: %w", err)
	}
	root, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "readme")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	clone := filepath.Join(temp, "leasehold")
	if _, err := output("", "git", "clone", "--quiet", root, clone); err != nil {
		return err
	}
	if dirty, err := output(root, "git", "status", "--porcelain"); err == nil && dirty != "" {
		fmt.Println("readme: what is not committed is not in the clone")
	}
	home := filepath.Join(temp, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	env, err := environment(home)
	if err != nil {
		return err
	}

	text, err := os.ReadFile(filepath.Join(clone, page))
	if err != nil {
		return err
	}
	all, err := blocks(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	run, err := shell(all)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if len(run) == 0 {
		return fmt.Errorf("%s has no ```sh block", page)
	}
	for _, b := range run {
		if skip != "" && without.MatchString(b.text) {
			b.skip = "-skip " + skip
		}
		if err := b.run(page, clone, env); err != nil {
			return err
		}
	}
	return nil
}

// run runs one block in a shell that stops at the first command that fails.
func (b block) run(page, dir string, env []string) error {
	where := fmt.Sprintf("%s:%d", page, b.line)
	if b.skip != "" {
		fmt.Printf("--- %s: not run: %s\n", where, b.skip)
		return nil
	}
	fmt.Printf("--- %s\n%s", where, indent(b.text))
	var out bytes.Buffer
	cmd := exec.Command("sh", "-eu", "-c", b.text)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout = io.MultiWriter(os.Stdout, &out)
	cmd.Stderr = cmd.Stdout
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if b.print != nil && !b.print.Match(out.Bytes()) {
		return fmt.Errorf("%s: the output does not match %q", where, b.print)
	}
	fmt.Printf("--- %s: %d s\n", where, int(time.Since(start).Seconds()))
	return nil
}

// environment is this process's with a home that is new. What Go keeps under
// the old one is named outright, so that it is found.
func environment(home string) ([]string, error) {
	names := []string{"GOENV", "GOPATH", "GOMODCACHE", "GOCACHE"}
	values, err := output("", "go", append([]string{"env"}, names...)...)
	if err != nil {
		return nil, err
	}
	var env []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case name == "LEASEHOLD_REQUIRE": // whether a test may be skipped
			env = append(env, e)
		case name == "HOME", strings.HasPrefix(name, "XDG_"), strings.HasPrefix(name, "MAKE"),
			name == "MFLAGS", name == "STATE_DIRECTORY", strings.HasPrefix(name, "LEASEHOLD_"):
		default:
			env = append(env, e)
		}
	}
	env = append(env, "HOME="+home)
	for i, value := range strings.Split(values, "\n") {
		env = append(env, names[i]+"="+value)
	}
	return env, nil
}

func output(dir, program string, args ...string) (string, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, &said)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
}
