package tuslock_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// tusd waits 20 s for a lock and then answers with an error. A request that gets its lock in less
// than half of that did not wait for any time-out.
const soon = 10 * time.Second

func TestAHeadAtAnotherInstanceEndsAStalledPatch(t *testing.T) {
	w := newWorld(t)
	c := client(t)
	id := w.one.create(t, c, 10)
	s := w.stall(t, c, w.one, id, "abc")

	begin := time.Now()
	at := w.two.offset(t, c, id)
	took := time.Since(begin)
	t.Logf("HEAD at the second instance had its lock and its answer after %v", took)
	if at != "3" || took > soon {
		t.Errorf("offset %s after %v, want 3 at once", at, took)
	}
	if a := s.answer(t); a.status != http.StatusBadRequest || !strings.Contains(a.text, "ERR_UPLOAD_INTERRUPTED") {
		t.Errorf("the stalled PATCH was answered %+v, want ERR_UPLOAD_INTERRUPTED", a)
	}
	w.two.patch(t, c, id, at, "defghij")
	if got := w.content(t, id); got != "abcdefghij" {
		t.Errorf("the upload is %q", got)
	}
}

func TestUploadsOfAKilledInstanceAreFreeAfterTheTTL(t *testing.T) {
	w := newWorld(t)
	c := client(t)
	id := w.one.create(t, c, 10)
	s := w.stall(t, c, w.one, id, "abc")
	w.one.Kill()
	begin := time.Now()
	s.more.Close()
	if a := s.answer(t); a.err == nil {
		t.Errorf("the PATCH at a killed instance was answered %+v", a)
	}
	at := w.two.offset(t, c, id) // 20 s at most, or it fails
	t.Logf("the upload was free %v after the kill; the TTL is %v", time.Since(begin), ttl)
	w.two.patch(t, c, id, at, "defghij")
	if got := w.content(t, id); at != "3" || got != "abcdefghij" {
		t.Errorf("offset %s, then the upload is %q", at, got)
	}
}

// A file store appends, so one late byte spoils the upload.
func TestAStoppedInstanceStoresNothingAfterItsLeaseWasLost(t *testing.T) {
	w := newWorld(t)
	c := client(t)
	id := w.one.create(t, c, 10)
	s := w.stall(t, c, w.one, id, "abc")
	if err := w.one.Halt(); err != nil {
		t.Fatal(err)
	}
	// The client of the first instance goes on to send; the kernel keeps it for the process.
	if _, err := s.more.Write([]byte("LATE")); err != nil {
		t.Fatal(err)
	}
	w.two.patch(t, c, id, w.two.offset(t, c, id), "defghij")
	if err := w.one.Proceed(); err != nil {
		t.Fatal(err)
	}
	s.more.Close() // net/http answers when it has read the body to its end
	a := s.answer(t)
	t.Logf("the stopped instance answered %d %s, error: %v", a.status, strings.TrimSpace(a.text), a.err)
	// An error of the connection is one too: net/http may report a write that failed, and not the answer
	// that came before it. A request that hangs is none.
	if a.err == nil && a.status < 400 || os.IsTimeout(a.err) {
		t.Errorf("it answered %+v, want an error", a)
	}
	if got := w.content(t, id); got != "abcdefghij" {
		t.Errorf("the upload is %q", got)
	}
}

func TestALostEngineEndsTheUpload(t *testing.T) {
	w := newWorld(t)
	c := client(t)
	id := w.one.create(t, c, 10)
	s := w.stall(t, c, w.one, id, "abc")
	w.proxy.BlackHole(true)
	a := s.answer(t) // the lease is lost when the TTL has passed, and the request is told
	if a.status < 400 {
		t.Errorf("it was answered %+v, want an error", a)
	}
	w.two.patch(t, c, id, w.two.offset(t, c, id), "defghij")
	if got := w.content(t, id); got != "abcdefghij" {
		t.Errorf("the upload is %q", got)
	}
	w.proxy.BlackHole(false)
}
