//go:build unix && tofu

package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// These tests run a real OpenTofu. They are behind a tag, since only make tofu, which builds it,
// has one. With -tofu.record they write its
// requests down, and TestTofuRecorded makes them again where there is no OpenTofu.

var record = flag.Bool("tofu.record", false, "write the requests of OpenTofu to "+tofuExchange)

// tofuWorld has a Server, another server for the state, and any number of folders with a
// configuration that has the same state.
type tofuWorld struct {
	t      *testing.T
	binary string
	tokens map[string]string // by caller
	locks  string            // URL
	state  string
	mu     sync.Mutex
	sent   []tofuRequest
}

func newTofuWorld(t *testing.T) *tofuWorld {
	t.Helper()
	binary, err := filepath.Abs("../.deps/bin/tofu")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatal("OpenTofu is not built: run `make tofu`")
	}
	w := &tofuWorld{t: t, binary: binary, tokens: map[string]string{"nobody": "wrong"}}
	known, tokens := tofuAccess(t, tofuLines...)
	for i, line := range tofuLines {
		w.tokens[strings.Fields(line)[0]] = tokens[i]
	}
	s, _ := plainly(t, store(t).Engine(), &Options{Access: known})
	locks := httptest.NewServer(w.recorded(s))
	t.Cleanup(locks.Close)
	w.locks = locks.URL

	var mu sync.Mutex
	var state []byte
	states := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.Method == "POST":
			state, _ = io.ReadAll(r.Body)
		case state == nil:
			to.WriteHeader(http.StatusNoContent)
		default:
			to.Write(state)
		}
	}))
	t.Cleanup(states.Close)
	w.state = states.URL
	t.Cleanup(w.write)
	return w
}

// recorded has a Server's requests and answers kept.
func (w *tofuWorld) recorded(s *Server) http.HandlerFunc {
	return func(to http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, r)
		to.WriteHeader(answer.Code)
		to.Write(answer.Body.Bytes())
		_, password, _ := r.BasicAuth()
		w.mu.Lock()
		defer w.mu.Unlock()
		for caller, token := range w.tokens {
			if token == password {
				w.sent = append(w.sent, tofuRequest{w.t.Name(), caller, r.Header.Get("Content-Type"), r.Method, r.URL.RequestURI(), body, answer.Code})
			}
		}
		w.t.Logf("%s %s: %d %s", r.Method, body, answer.Code, answer.Body)
	}
}

func (w *tofuWorld) write() {
	if !*record || w.t.Failed() {
		return
	}
	f, err := os.OpenFile(tofuExchange, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	for _, e := range w.sent {
		e.Body = tofuWho.ReplaceAll(e.Body, []byte(`"Who":"ann@build-7"`)) // it is nobody's business
		json.NewEncoder(f).Encode(e)
	}
}

// tofuDir is a folder in which a caller works.
type tofuDir struct {
	w    *tofuWorld
	path string
	env  []string
}

// A resource that is created only when the file "go" is there keeps a run in its middle.
const tofuConfig = `
terraform {
  backend "http" {}
}
resource "terraform_data" "slow" {
  provisioner "local-exec" {
    command = "touch began; until [ -e go ]; do sleep 0.05; done"
  }
}
`

func (w *tofuWorld) dir(caller, query string) *tofuDir {
	w.t.Helper()
	d := &tofuDir{w: w, path: w.t.TempDir()}
	address := w.locks + "/v1/tofu/prod/network" + query
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "TF_") })
	d.env = append(own, "HOME="+d.path, "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_HTTP_RETRY_WAIT_MAX=1",
		"TF_HTTP_ADDRESS="+w.state, "TF_HTTP_LOCK_ADDRESS="+address, "TF_HTTP_UNLOCK_ADDRESS="+address,
		"TF_HTTP_USERNAME="+caller, "TF_HTTP_PASSWORD="+w.tokens[caller])
	d.file("main.tf", tofuConfig)
	if out, err := d.run("init", "-no-color"); err != nil {
		w.t.Fatalf("init: %v\n%s", err, out)
	}
	return d
}

func (d *tofuDir) file(name, text string) {
	d.w.t.Helper()
	if err := os.WriteFile(filepath.Join(d.path, name), []byte(text), 0o600); err != nil {
		d.w.t.Fatal(err)
	}
}

func (d *tofuDir) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(d.w.t.Context(), d.w.binary, args...)
	c.Dir, c.Env = d.path, d.env
	return c
}

func (d *tofuDir) run(args ...string) (string, error) {
	out, err := d.command(args...).CombinedOutput()
	return string(out), err
}

// apply changes the state at once.
func (d *tofuDir) apply(timeout string) (string, error) {
	d.file("go", "")
	return d.run("apply", "-no-color", "-auto-approve", "-lock-timeout="+timeout)
}

// tofuRun is a run in its middle.
type tofuRun struct {
	*tofuDir
	cmd *exec.Cmd
	out bytes.Buffer
}

// begin starts a run, and returns when it has the lock and works.
func (d *tofuDir) begin() *tofuRun {
	d.w.t.Helper()
	r := &tofuRun{tofuDir: d, cmd: d.command("apply", "-no-color", "-auto-approve")}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.out
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with its shell
	if err := r.cmd.Start(); err != nil {
		d.w.t.Fatal(err)
	}
	d.w.t.Cleanup(r.kill)
	until(d.w.t, "the run has not begun", func() bool {
		_, err := os.Stat(filepath.Join(d.path, "began"))
		return err == nil
	})
	return r
}

func (r *tofuRun) kill() {
	if r.cmd.ProcessState == nil {
		syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
		r.cmd.Wait()
	}
}

// end lets a run go on to its end.
func (r *tofuRun) end() (string, error) {
	r.file("go", "")
	err := r.cmd.Wait()
	return r.out.String(), err
}

// says fails the test unless a run ended as it should, with these words.
func (w *tofuWorld) says(out string, err error, ok bool, words ...string) {
	w.t.Helper()
	if _, exit := errors.AsType[*exec.ExitError](err); (err == nil) != ok || err != nil && !exit {
		w.t.Fatalf("it ended with %v:\n%s", err, out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			w.t.Errorf("it does not say %q:\n%s", word, out)
		}
	}
}

var (
	tofuID  = regexp.MustCompile(`ID: +(\S+)`)
	tofuWho = regexp.MustCompile(`"Who":"[^"]+"`)
)

func TestTofuLiveTwoApplies(t *testing.T) {
	w := newTofuWorld(t)
	one, two := w.dir("one", ""), w.dir("two", "")
	first := one.begin()
	out, err := two.apply("0s")
	w.says(out, err, false, "Error acquiring the state lock", "HTTP remote state already locked", "OperationTypeApply", "prod/network", "locked by one", "ends by itself within")
	second := make(chan string)
	go func() {
		out, err := two.apply("5m")
		second <- fmt.Sprint(err, out)
	}()
	out, err = first.end()
	w.says(out, err, true, "Apply complete")
	if out := <-second; !strings.HasPrefix(out, "<nil>") || !strings.Contains(out, "No changes") {
		t.Errorf("the second: %s", out)
	}
}

func TestTofuLiveKilledRun(t *testing.T) {
	w := newTofuWorld(t)
	one, two := w.dir("one", "?ttl=5s"), w.dir("two", "?ttl=1h")
	one.begin().kill()
	out, err := two.apply("5m")
	w.says(out, err, true, "Apply complete")
}

func TestTofuLiveForceUnlock(t *testing.T) {
	w := newTofuWorld(t)
	one, two, admin := w.dir("one", ""), w.dir("two", ""), w.dir("admin", "")
	first := one.begin()
	out, err := two.apply("0s")
	w.says(out, err, false, "already locked")
	id := tofuID.FindStringSubmatch(out)
	if id == nil {
		t.Fatalf("no ID in\n%s", out)
	}
	out, err = two.run("force-unlock", "-no-color", "-force", id[1])
	w.says(out, err, false, "Failed to unlock state", "code 403")
	out, err = admin.run("force-unlock", "-no-color", "-force", id[1])
	w.says(out, err, true, "successfully unlocked")
	out, err = two.apply("0s")
	w.says(out, err, true, "Apply complete")
	out, err = first.end()
	w.says(out, err, false, "Error releasing the state lock", "Unexpected HTTP response code 410")
	t.Log(out)
}

func TestTofuLiveWrongToken(t *testing.T) {
	w := newTofuWorld(t)
	out, err := w.dir("nobody", "").apply("0s")
	w.says(out, err, false, "HTTP remote state endpoint requires auth")

	// A password that only the lock's address has.
	d := w.dir("one", "")
	for i, v := range d.env {
		if strings.HasPrefix(v, "TF_HTTP_USERNAME=") || strings.HasPrefix(v, "TF_HTTP_PASSWORD=") {
			d.env[i] = "NOTHING="
		}
		d.env[i] = strings.Replace(d.env[i], "LOCK_ADDRESS=http://", "LOCK_ADDRESS=http://one:"+w.tokens["one"]+"@", 1)
	}
	out, err = d.run("init", "-no-color", "-reconfigure")
	w.says(out, err, true)
	out, err = d.apply("0s")
	w.says(out, err, true, "Apply complete")
}

func TestTofuLiveRunOutlivesItsTTL(t *testing.T) {
	w := newTofuWorld(t)
	one, two := w.dir("one", "?ttl=5s"), w.dir("two", "?ttl=1h")
	first := one.begin()
	until(t, "the lock never ended", func() bool {
		out, err := two.run("plan", "-no-color", "-lock-timeout=1m")
		return err == nil && strings.Contains(out, "to add")
	})
	second := two.begin()
	out, err := first.end()
	w.says(out, err, false, "Creation complete", "Error releasing the state lock", "Unexpected HTTP response code 409")
	t.Log(out)
	out, err = second.end()
	w.says(out, err, true, "Apply complete")
}
