//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// Every refusal is one sentence and leaves nothing behind.
func TestBadInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	run := func(args ...string) []string { return append(append([]string{"run"}, args...), "--", "true") }
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("two\nlines\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(long, []byte("dir:/"+strings.Repeat("x", maxURL)), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"empty name", run(""), 64, "it is empty"},
		{"long name", run(strings.Repeat("n", 513)), 64, "513 bytes"},
		{"no UTF-8", run("\xff"), 64, "UTF-8"},
		{"empty name to show", []string{"show", ""}, 64, "it is empty"},
		{"no name", []string{"run"}, 64, "name or command missing"},
		{"no command", []string{"run", "a", "--"}, 64, "no command"},
		{"no dashes", []string{"run", "a", "true"}, 64, "--"},
		{"two names", []string{"run", "a", "b", "--", "true"}, 64, "one name"},
		{"TTL of zero", run("a", "--ttl", "0s"), 64, "TTL 0s"},
		{"negative TTL", run("a", "--ttl", "-1s"), 64, "TTL -1s"},
		{"absurd TTL", run("a", "--ttl", "9000h"), 64, "outside 100ms to 24h"},
		{"no duration", run("a", "--ttl", "30"), 64, `--ttl "30" is not a duration, such as`},
		{"negative wait", run("a", "--wait", "-1s"), 64, "negative"},
		{"wait and nonblock", run("a", "--wait", "1s", "--nonblock"), 64, "--wait and --nonblock exclude each other"},
		{"shared and permits", run("a", "--shared", "--permits", "1", "--of", "2"), 64, "--shared and --permits exclude each other"},
		{"permits alone", run("a", "--permits", "1"), 64, "--permits and --of go together"},
		{"of alone", run("a", "--of", "1"), 64, "--permits and --of go together"},
		{"the same of acquire", []string{"acquire", "a", "--of", "1"}, 64, "--permits and --of go together"},
		{"permits over the limit", run("a", "--permits", "3", "--of", "2"), 64, "outside 1 to the 2"},
		{"no permits", run("a", "--permits", "0", "--of", "2"), 64, "outside 1 to the 2"},
		{"negative permits", run("a", "--permits", "-1", "--of", "2"), 64, "outside 1 to the 2"},
		{"of none", run("a", "--permits", "1", "--of", "0"), 64, "at least 1"},
		{"too many for a number", run("a", "--permits", "1", "--of", "2147483648"), 64, "below 2147483648"},
		{"min-hold over max-hold", run("a", "--min-hold", "2s", "--max-hold", "1s"), 64, "--max-hold"},
		{"absurd min-hold", run("a", "--min-hold", "25h"), 64, "--min-hold"},
		{"long label", run("a", "--label", strings.Repeat("l", 101)), 64, "--label"},
		{"exit code", run("a", "--lost-exit-code", "256"), 64, "outside 1 to 255"},
		{"a loss that is a success", run("a", "--lost-exit-code", "0"), 64, "outside 1 to 255"},
		{"exit code of a conflict", run("a", "--conflict-exit-code", "256"), 64, "outside 0 to 255"},
		{"parameter of no engine", []string{"ls", "--engine", "redis://127.0.0.1:1?prefx=a"}, 64, `unknown parameter "prefx"`},
		{"nobody listens", []string{"ls", "--engine", "redis://127.0.0.1:1"}, 69, "refused"},
		{"unmet requirement of ls", []string{"ls", "--engine", "mem:", "--require", "cluster"}, 64, "cluster"},
		{"help about nothing", []string{"frob", "--help"}, 64, `has no command "frob"`},
		{"help about almost a command", []string{"shwo", "-h"}, 64, "did you mean show?"},
		{"no handle", []string{"release", "frob"}, 64, "the handle that acquire printed"},
		{"endless argument", []string{"ls", "--engine", "frob:" + strings.Repeat("x", 100_000)}, 64, "known are dir"},
		{"endless command", []string{strings.Repeat("y", 100_000)}, 64, "has no command"},
		{"endless program", []string{"run", "a", "--", "./" + strings.Repeat("z", 100_000)}, 126, "cannot run"},
		{"unknown flag", run("a", "--frob"), 64, "there is no --frob: see leasehold run --help"},
		{"unknown short flag", run("a", "-x"), 64, "there is no -x"},
		{"flag without a value", []string{"ls", "--require"}, 64, "--require needs a value"},
		{"flag that is no bool", run("a", "--shared=perhaps"), 64, "is not true or false"},
		{"unknown command", []string{"frob"}, 64, `has no command "frob"`},
		{"almost a command", []string{"shwo"}, 64, "did you mean show?"},
		{"unknown help", []string{"help", "frob"}, 64, `has no command "frob"`},
		{"unknown shell", []string{"completion", "nosuch"}, 64, "known are bash, fish, powershell, zsh"},
		{"two shells", []string{"completion", "bash", "zsh"}, 64, "takes no argument"},
		{"no name to show", []string{"show"}, 64, "needs one name"},
		{"too many names", []string{"show", "a", "b"}, 64, "takes one name"},
		{"too many prefixes", []string{"ls", "a", "b"}, 64, "takes one prefix"},
		{"no such demo", []string{"demo", "expires"}, 64, "has no command \"expires\": did you mean expire"},
		{"nowhere for pages", []string{"man"}, 64, "needs a directory"},
		{"pages into a file", []string{"man", file}, 1, "not a directory"},
		{"reap by hand", []string{"reap", "3", "4"}, 64, "not by hand"},
		{"empty engine", []string{"ls", "--engine", ""}, 64, "--engine is empty"},
		{"empty engine to run", run("a", "--engine="), 64, "--engine is empty"},
		{"no ticket", []string{"revoke", "a"}, 64, "--ticket is needed"},
		{"ticket that is none", []string{"revoke", "a", "--ticket", "x"}, 64, "x"},
		{"nobody has the ticket", []string{"revoke", "a", "--ticket", "7", "--yes"}, 1, "nobody has the ticket 7"},
		{"watch too often", []string{"watch", "--every", "1ms"}, 64, "--every"},
		{"exporter for everybody", []string{"exporter", "--listen", ":0"}, 64, "give an address such as 127.0.0.1:10517, or --remote"},
		{"exporter of a prefix twice", []string{"exporter", "--prefix", "a", "--prefix", "a"}, 64, "given twice"},
		{"exporter too often", []string{"exporter", "--every", "1ms"}, 64, "a reading every 1ms is outside 100ms to 1h"},
		{"exporter of every name", []string{"exporter", "--by-name", "101"}, 64, "outside 0 to 100"},
		{"exporter with an argument", []string{"exporter", "a/"}, 64, "takes no argument"},
		{"unknown scheme", run("a", "--engine", "frob://host"), 64, "known are dir"},
		{"no scheme", []string{"ls", "--engine", "/var/lib"}, 64, "no scheme"},
		{"no file", []string{"ls", "--engine", "@/no/such/file"}, 64, "no such file"},
		{"a file that is longer than a URL", []string{"ls", "--engine", "@" + long}, 64, "does not have one URL on one line"},
		{"two lines", []string{"ls", "--engine", "@" + file}, 64, "does not have one URL on one line"},
		{"unknown requirement", []string{"ls", "--require", "frob"}, 64, "known are"},
		{"unmet requirement", run("a", "--require", "fencing,cluster"), 64, "cluster"},
		{"a file for a directory", run("a", "--engine", "dir://"+file), 69, "not a directory"},
		{"a link for a directory", run("a", "--engine", "dir://"+link), 69, "link"},
		{"no directory to be made", run("a", "--engine", "dir:///proc/no/such"), 69, "/proc/no"},
		{"keep by hand", []string{"keep", "a", "true"}, 64, "not by hand"},
		{"schema of what", []string{"schema"}, 64, "needs a kind of database"},
		{"schema of another", []string{"schema", "oracle"}, 64, "give postgres or mysql"},
		{"schema in a database without", []string{"schema", "mysql", "--schema", "mine"}, 64, "has no schemas"},
		{"schema with a long prefix", []string{"schema", "postgres", "--prefix", strings.Repeat("p", 41)}, 64, "it may have 40"},
		{"demo-process by hand", []string{"demo-process"}, 64, "not by hand"},
		{"a demo with --engine", []string{"demo", "expire", "--engine", "dir:"}, 64, "give --server"},
		{"a demo with a password", []string{"demo", "expire", "--server", "redis://a:secret@h"}, 64, "--server @file"},
		{"a demo on the wrong server", []string{"demo", "expire", "--server", "zookeeper://h"}, 64, "runs on Redis"},
		{"a demo on no ZooKeeper", []string{"demo", "herd", "--server", "redis://h"}, 64, "runs on ZooKeeper"},
		{"a demo that ends servers", []string{"demo", "failover", "--server", "redis://h"}, 64, "leave --server out"},
		{"a demo with parameters of an engine", []string{"demo", "setnx", "--server", "redis://h?prefix=x"}, 64, "unknown parameter"},
		{"demo-worker by hand", []string{"demo-worker", "a"}, 64, "not by hand"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := p.leasehold(c.args...)
			if code != c.code || out != "" {
				t.Errorf("exit code %d, want %d; printed %q", code, c.code, out)
			}
			if one(t, stderr, c.says); len(stderr) > 2500 {
				t.Errorf("it says %d bytes", len(stderr))
			}
		})
	}
}

func TestUnwritableDirectory(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("as root, who may write everywhere: done as nobody")
	}
	p := newPlace(t)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	x := p.startCmd(asNobody(t, dir, "run", "a", "--engine", "dir://"+dir+"/locks", "--", "true"))
	if code := x.wait(t); code != 69 {
		t.Errorf("exit code %d", code)
	}
	one(t, x.err.String(), "permission denied", dir)
}

// asNobody is leasehold without the rights of root. It reaches what is in dir.
func asNobody(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, args...)
	if os.Geteuid() != 0 {
		return cmd
	}
	for _, path := range []string{program, dir} {
		for d := filepath.Dir(path); d != filepath.Clean(os.TempDir()) && d != "/"; d = filepath.Dir(d) {
			if err := os.Chmod(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	const secret = "frob://me:sesame@host/?password=sesame"
	file := p.file("url")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, env string
		args      []string
		code      int
	}{
		{"argv", "", []string{"--engine", secret}, 64},
		{"environment", secret, nil, 64},
		{"file", "", []string{"--engine", "@" + file}, 64},
		{"file named by the environment", "@" + file, nil, 64},
	} {
		for _, cmd := range [][]string{{"ls"}, {"run", "a"}} {
			t.Run(cmd[0]+" by "+c.name, func(t *testing.T) {
				q := *p
				q.T, q.env = t, append(os.Environ(), "LEASEHOLD_ENGINE="+c.env)
				args := append(append([]string{}, cmd...), c.args...)
				if cmd[0] == "run" {
					args = append(args, "--", "true")
				}
				code, out, stderr := q.leasehold(args...)
				if code != c.code || strings.Contains(out+stderr, "sesame") {
					t.Errorf("exit code %d, want %d; said %q", code, c.code, stderr)
				}
				one(t, stderr, "xxxxx")
			})
		}
	}
}

func TestEngineFromFile(t *testing.T) {
	p := newPlace(t)
	file := p.file("url")
	if err := os.WriteFile(file, []byte(" dir://"+p.dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.start("run", "a", "--", "sleep", "60")
	p.held("a")
	p.env = append(os.Environ(), "LEASEHOLD_ENGINE=")
	if out := p.must("ls", "--engine", "@"+file); !strings.Contains(out, "a ") {
		t.Errorf("%q", out)
	}
}

func TestLsAndShow(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	names := []string{"b", "a", "other", "a b", "a\x1b[31m"}
	for _, name := range names {
		p.start("run", name, "--label", "by \x1b[2J"+strconv.Itoa(len(name)), "--", "sleep", "60")
		p.held(name)
	}
	p.start("run", "a", "--shared", "--", "sleep", "60")
	until(t, "somebody waits", func() bool { return len(p.line("a").Claims) == 2 })

	out := p.must("ls")
	var first []string
	for _, row := range strings.Split(strings.TrimSpace(out), "\n") {
		first = append(first, strings.SplitN(row, "  ", 2)[0])
	}
	if got, want := strings.Join(first, "|"), `NAME|a|"a\x1b[31m"|"a b"|b|other`; got != want {
		t.Errorf("names %s, want %s", got, want)
	}
	if strings.ContainsRune(out, '\x1b') {
		t.Errorf("control characters: %q", out)
	}
	if out := p.must("ls", "oth"); !strings.Contains(out, "other") || strings.Contains(out, "\nb") {
		t.Errorf("with a prefix: %s", out)
	}
	if out := p.must("ls", "nobody"); out != "" {
		t.Errorf("of nothing: %q", out)
	}

	out = p.must("show", "a")
	for _, want := range []string{"a: 1 hold it, 1 wait", "exclusive", "shared", "held, wanted", "waiting", `by \x1b[2J1`} {
		if !strings.Contains(out, want) {
			t.Errorf("show does not say %q:\n%s", want, out)
		}
	}
	if out := p.must("show", "free"); out != "free: nobody holds it\n" {
		t.Errorf("%q", out)
	}

	var lines []struct {
		Name   string
		Claims []struct {
			Ticket, Token string
			State, Mode   string
			Owner         struct {
				PID   int
				Label string
			}
		}
	}
	if err := json.Unmarshal([]byte(p.must("ls", "--json")), &lines); err != nil {
		t.Fatal(err)
	}
	if len(lines) != len(names) || lines[0].Name != "a" || lines[1].Name != "a\x1b[31m" || len(lines[0].Claims) != 2 {
		t.Fatalf("%+v", lines)
	}
	c := lines[0].Claims[0]
	ticket, err1 := strconv.ParseUint(c.Ticket, 10, 64)
	token, err2 := strconv.ParseUint(c.Token, 10, 64)
	if err1 != nil || err2 != nil || token != ticket<<10 || c.State != "held" || c.Mode != "exclusive" || c.Owner.Label != "by \x1b[2J1" {
		t.Errorf("%+v", c)
	}
	if out := p.must("ls", "nobody", "--json"); out != "[]\n" {
		t.Errorf("of nothing: %q", out)
	}
}

func TestRevokeAsks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start("run", "a", "--label", "x\x1b[0m", "--", "sleep", "60")
	ticket := fmt.Sprint(p.held("a").Ticket)
	code, _, stderr := p.leasehold("revoke", "a", "--ticket", ticket)
	if code != 64 {
		t.Errorf("without a terminal: exit code %d", code)
	}
	one(t, stderr, "--yes")

	for _, c := range []struct {
		answer string
		code   int
	}{{"\n", 1}, {"n\n", 1}, {"\x03", 130}, {"y\n", 0}} {
		cmd := exec.Command(program, "revoke", "a", "--ticket", ticket)
		cmd.Env = p.env
		tty, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		b := make([]byte, 1024)
		for !strings.Contains(said.String(), "[y/N]") {
			n, err := tty.Read(b)
			if said.Write(b[:n]); err != nil {
				t.Fatalf("%q, %v", said.String(), err)
			}
		}
		if !strings.Contains(said.String(), `(x\x1b[0m)`) {
			t.Errorf("asked %q", said.String())
		}
		tty.WriteString(c.answer)
		cmd.Wait()
		tty.Close()
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("answer %q: exit code %d, want %d", c.answer, got, c.code)
		}
	}
	until(t, "it is free", func() bool { return len(p.line("a").Claims) == 0 })
}

// Who agrees to end a wait has not agreed to end a hold.
func TestRevokeOfAWaitEndsNoHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder := p.start("run", "a", "--", "sleep", "60")
	p.held("a")
	p.start("run", "a", "--", "sleep", "60")
	until(t, "it waits", func() bool { return len(p.line("a").Claims) == 2 })
	ticket := fmt.Sprint(p.line("a").Claims[1].Ticket)
	cmd := exec.Command(program, "revoke", "a", "--ticket", ticket)
	cmd.Env = p.env
	tty, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var said strings.Builder
	b := make([]byte, 1024)
	read := func() bool {
		n, err := tty.Read(b)
		said.Write(b[:n])
		return err == nil
	}
	for !strings.Contains(said.String(), "[y/N]") && read() {
	}
	holder.Process.Signal(syscall.SIGTERM)
	until(t, "it is granted", func() bool { return fmt.Sprint(p.held("a").Ticket) == ticket })
	tty.WriteString("y\n")
	for read() {
	}
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said.String(), "nothing was revoked") {
		t.Errorf("exit code %d: %s", code, said.String())
	}
	if c := p.held("a"); fmt.Sprint(c.Ticket) != ticket || c.Revoked {
		t.Errorf("%+v", c)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	watch := func(file string, args ...string) *exec.Cmd {
		t.Helper()
		out, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { out.Close() })
		cmd := exec.Command(program, append([]string{"watch", "--every", "50ms"}, args...)...)
		cmd.Env, cmd.Stdout = p.env, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	said := func(file string) string {
		b, _ := os.ReadFile(file)
		return string(b)
	}
	plain, rows := p.file("plain"), p.file("rows")
	cmd, asJSON := watch(plain, "w"), watch(rows, "--json")
	says := func(what string) {
		t.Helper()
		until(t, "watch says "+what, func() bool { return strings.Contains(said(plain), what) })
	}
	p.start("run", "other", "--", "sleep", "60")
	p.held("other")
	x := p.start("run", "w", "--", "sleep", "60")
	first := p.held("w")
	says(fmt.Sprintf(" w holds ticket %d exclusive ", first.Ticket))
	p.start("run", "w", "--", "sleep", "60")
	says(" w waits ticket ")
	x.Process.Signal(syscall.SIGTERM)
	says(fmt.Sprintf(" w left ticket %d exclusive ", first.Ticket))
	second := p.line("w").Claims[0]
	says(fmt.Sprintf(" w holds ticket %d exclusive ", second.Ticket))
	if b := said(plain); strings.Contains(b, "other") || strings.ContainsRune(b, '\x1b') {
		t.Errorf("%q", b)
	}
	until(t, "it is told as JSON too", func() bool { return strings.Contains(said(rows), fmt.Sprint(second.Ticket)) })

	for _, cmd := range []*exec.Cmd{cmd, asJSON} {
		cmd.Process.Signal(os.Interrupt)
		if cmd.Wait(); cmd.ProcessState.ExitCode() != 0 {
			t.Errorf("interrupted: exit code %d", cmd.ProcessState.ExitCode())
		}
	}
	seen := map[string]bool{}
	for row := range strings.Lines(said(rows)) {
		var c struct {
			Name, What string
			Claim      struct{ Ticket string }
		}
		if err := json.Unmarshal([]byte(row), &c); err != nil || c.Claim.Ticket == "" {
			t.Errorf("%q: %v", row, err)
		}
		seen[c.Name+" "+c.What] = true
	}
	// It was given no prefix.
	if !seen["w holds"] || !seen["other holds"] {
		t.Errorf("%v", seen)
	}
}

// Nobody reads any more, and nothing changes that would have to be written.
func TestWatchEndsWithItsReader(t *testing.T) {
	p := newPlace(t)
	p.start("run", "w", "--", "sleep", "60")
	p.held("w")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "watch", "--every", "50ms")
	cmd.Env, cmd.Stdout = p.env, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	w.Close()
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	r.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	if code := cmd.ProcessState.ExitCode(); code != codeSignal+int(syscall.SIGPIPE) {
		t.Errorf("exit code %d", code)
	}
}

// ps and killall find the keeper by the name of the program.
func TestTheKeeperHasAName(t *testing.T) {
	p := newPlace(t)
	p.start("run", "named", "--", "sleep", "60")
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.held("named").Owner.PID))
	if err != nil || string(comm) != "leasehold\n" {
		t.Errorf("%q, %v", comm, err)
	}
}

func TestWatchRedraws(t *testing.T) {
	p := newPlace(t)
	p.start("run", "w", "--", "sleep", "60")
	p.held("w")
	s := p.session()
	s.enter("$leasehold watch --every 50ms")
	s.expect("\x1b[H")
	s.expect("w: 1 hold it, 0 wait")
	s.expect("\x1b[J")
	p.start("run", "w", "--", "sleep", "60")
	s.expect("w: 1 hold it, 1 wait")
	s.typed("\x03")
	s.expect("ready> ")
}

func TestCompletion(t *testing.T) {
	p := newPlace(t)
	p.start("run", "stock:42", "--", "sleep", "60")
	p.held("stock:42")
	for _, cmd := range []string{"run", "show", "ls", "watch", "revoke"} {
		out := ""
		for range 5 { // the engine has a second to answer, each time
			if out = p.must("__complete", cmd, "sto"); strings.HasPrefix(out, "stock:42\n") {
				break
			}
		}
		if !strings.HasPrefix(out, "stock:42\n") {
			t.Errorf("%s: %q", cmd, out)
		}
	}
	if out := p.must("completion", "bash"); !strings.Contains(out, "leasehold") {
		t.Error("no completion for bash")
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	code, out, stderr := p.leasehold("schema", "postgres", "--schema", "mine", "--prefix", "lh_")
	if code != 0 || stderr != "" || !strings.Contains(out, `CREATE SCHEMA IF NOT EXISTS "mine"`) || !strings.Contains(out, `CREATE TABLE "mine"."lh_names"`) || strings.Contains(out, "@") {
		t.Errorf("exit code %d, %q, printed\n%s", code, stderr, out)
	}
	code, out, stderr = p.leasehold("schema", "mysql", "--prefix", "lh_")
	if code != 0 || stderr != "" || !strings.Contains(out, "CREATE TABLE IF NOT EXISTS `lh_names`") || !strings.Contains(out, "DELIMITER $$") || strings.Contains(out, "@names") {
		t.Errorf("exit code %d, %q, printed\n%s", code, stderr, out)
	}
}

func TestVersion(t *testing.T) {
	p := newPlace(t)
	if out := p.must("--version"); !strings.HasPrefix(out, "leasehold ") || !strings.Contains(out, runtime.Version()) || strings.Count(out, "\n") != 1 {
		t.Errorf("%q", out)
	}
}

func TestManualPages(t *testing.T) {
	p := newPlace(t)
	dir := filepath.Join(p.dir, "man1")
	if out := p.must("man", dir); out != "" {
		t.Errorf("printed %q", out)
	}
	pages, err := filepath.Glob(dir + "/*.1")
	if err != nil || len(pages) < 10 {
		t.Errorf("%v, %v", pages, err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), ".TH \"LEASEHOLD") || strings.Contains(string(text), "spf13") {
			t.Errorf("%s is no page of ours: %.200s", page, text)
		}
		if strings.Contains(page, "keep") || strings.Contains(page, "reap") || strings.Contains(page, "worker") {
			t.Errorf("%s is about what nobody starts by hand", page)
		}
	}
	run, err := os.ReadFile(filepath.Join(dir, "leasehold-run.1"))
	for _, want := range []string{"max-hold", "hold-descendants", "LEASEHOLD", "On Linux", "On other systems", "On Windows COMMAND gets no", "only on Linux"} {
		if err != nil || !strings.Contains(strings.ReplaceAll(string(run), `\-`, "-"), want) {
			t.Errorf("the page of run does not say %s, %v", want, err)
		}
	}
}

func TestFewFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start("run", "busy", "--", "sleep", "60")
	p.held("busy")
	limits := []int{5, 6, 7, 8, 20, 30}
	if testing.Short() {
		limits = []int{5, 7, 30}
	}
	for _, limit := range limits {
		for _, cmd := range []string{"run a -- true", "run busy -- true", "acquire a", "ls", "show a", "watch", "demo"} {
			x := p.startCmd(shell(fmt.Sprintf(`ulimit -n %d; exec "$0" %s`, limit, cmd), program))
			if code := x.wait(t); code != 69 || x.out.String() != "" {
				t.Errorf("%s with %d: exit code %d, printed %q", cmd, limit, code, x.out.String())
			}
			one(t, x.err.String(), "ulimit -n")
		}
	}
	// What is asked for is enough, and is there again for the command.
	x := p.startCmd(shell(`ulimit -n 48; exec "$0" run a -- sh -c 'ulimit -n'`, program))
	if code := x.wait(t); code != 0 || x.out.String() != "48\n" {
		t.Errorf("exit code %d: %s%s", code, x.out.String(), x.err.String())
	}
	code := codeUnavailable // where the engine did not answer in time
	for end := time.Now().Add(patience); code == codeUnavailable && time.Now().Before(end); {
		x = p.startCmd(shell(`ulimit -n 48; exec "$0" run busy --wait 2s -- true`, program))
		code = x.wait(t)
	}
	if code != 75 {
		t.Errorf("exit code %d: %s", code, x.err.String())
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	out := p.must("demo", "--for", "700ms", "--procs", "3")
	for _, want := range []string{"without the lock: ", "with the lock:    "} {
		if !strings.Contains(out, "\n"+want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	with := out[strings.LastIndex(out, "with the lock:"):]
	if !strings.Contains(with, ", 0 of them drawn before") {
		t.Errorf("with the lock:\n%s", out)
	}
}
