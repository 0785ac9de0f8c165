package service_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/lab/servers"
)

// TestTheLinesOfTheREADMERun: the server of the command line, and what a newcomer copies, on
// a port that is free.
func TestTheLinesOfTheREADMERun(t *testing.T) {
	servers.Need(t, "curl")
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(bin/leasehold serve.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("README.md has no block that begins with bin/leasehold serve")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "leasehold")
	if out, err := exec.Command("go", "build", "-o", program, "leasehold/cmd/leasehold").CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	env := append(os.Environ(), "LEASEHOLD_ENGINE=dir:"+filepath.Join(dir, "locks"), "LEASEHOLD_SERVE_LISTEN=127.0.0.1:0")
	serve := exec.Command(program, "serve", "--quiet")
	said, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	serve.Env, serve.Stderr = env, said
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		serve.Process.Signal(syscall.SIGTERM) // an interrupt is ignored by what runs in the background
		if err := serve.Wait(); err != nil {
			t.Errorf("the server ends with %v", err)
		}
	}()
	serving := regexp.MustCompile(`serving on http://(\S+)`)
	var addr string
	until(t, "the server does not begin", 30*time.Second, func() bool {
		text, _ := os.ReadFile(said.Name())
		if m := serving.FindSubmatch(text); m != nil {
			addr = string(m[1])
		}
		return addr != ""
	})
	var script []string
	for line := range strings.Lines(string(block[1])) {
		if strings.HasPrefix(line, "curl ") {
			script = append(script, strings.Replace(strings.ReplaceAll(line, "127.0.0.1:7420", addr), "curl ", "curl -sS --fail ", 1))
		}
	}
	if len(script) < 2 {
		t.Fatalf("the block has %d lines of curl", len(script))
	}
	out, err := exec.Command("sh", "-ec", strings.Join(script, "")).CombinedOutput()
	for _, want := range []string{`"state":"held"`, `"token":"`, `"queues":[{"name":"deploy"`} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s\ndoes not say %s", err, out, want)
		}
	}
}
