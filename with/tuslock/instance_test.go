package tuslock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
	"go.uber.org/goleak"
	expslog "golang.org/x/exp/slog"
	"leasehold"
	"leasehold/engine/redis"
	"leasehold/internal/child"
	"leasehold/lab/servers"
	"leasehold/with/tuslock"
)

const (
	role = "TUSLOCK_TEST_INSTANCE" // "engine folder"
	ttl  = 6 * time.Second
	// generous bounds every wait: it ends by an event.
	generous = 60 * time.Second
)

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		if err := instance(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// tusd keeps a goroutine for GracefulRequestCompletionTimeout after each request, and the
	// tests of this process that serve requests shorten it.
	goleak.VerifyTestMain(m)
}

// instance is one process that serves uploads until its input ends. It prints its address.
func instance(ctx context.Context) error {
	f := strings.Fields(os.Getenv(role))
	locks, err := open(ctx, f[0])
	if err != nil {
		return err
	}
	defer locks.Close()
	h, err := serving(locks, f[1])
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go http.Serve(l, h)
	fmt.Println(l.Addr())
	_, err = bufio.NewReader(os.Stdin).ReadString('\n')
	if err == io.EOF {
		err = nil
	}
	return err
}

func open(ctx context.Context, url string) (*leasehold.Client, error) {
	eng, err := redis.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return leasehold.New(eng, nil)
}

// serving is what a program writes: tusd over a shared folder, with the default time-outs.
func serving(locks *leasehold.Client, folder string) (http.Handler, error) {
	locker, err := tuslock.New(locks, &tuslock.Options{TTL: ttl})
	if err != nil {
		return nil, err
	}
	c := handler.NewStoreComposer()
	filestore.New(folder).UseIn(c)
	locker.UseIn(c)
	h, err := handler.NewHandler(handler.Config{
		BasePath: "/files/", StoreComposer: c, Logger: expslog.New(expslog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return nil, err
	}
	return http.StripPrefix("/files/", h), nil
}

// process is an instance in a process of its own.
type process struct {
	*child.Process
	url string
}

func start(t *testing.T, engine, folder string) *process {
	t.Helper()
	lines := make(chan string, 1)
	p, err := child.Start(nil, []string{role + "=" + engine + " " + folder}, func(line string) { lines <- line })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	select {
	case addr := <-lines:
		return &process{p, "http://" + addr + "/files/"}
	case <-p.Ended():
		t.Fatal(p.Wait())
	case <-time.After(generous):
		t.Fatal("an instance does not start")
	}
	return nil
}

// world is a Redis, a folder and two instances.
type world struct {
	folder, url string
	proxy       *servers.Proxy // between the first instance and Redis
	one, two    *process
}

func newWorld(t *testing.T) *world {
	t.Helper()
	r := servers.Redis(t, nil)
	w := &world{folder: t.TempDir(), url: "redis://" + r.Addr, proxy: servers.ProxyTo(t, r.Addr)}
	w.one, w.two = start(t, "redis://"+w.proxy.Addr, w.folder), start(t, w.url, w.folder)
	return w
}

func client(t *testing.T) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: generous}
}

// call is one request of the tus protocol.
func call(ctx context.Context, c *http.Client, method, url string, body io.Reader, header ...string) (*http.Response, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

// create makes an upload of that size at an instance and returns its ID.
func (p *process) create(t *testing.T, c *http.Client, size int) string {
	t.Helper()
	res, text, err := call(t.Context(), c, "POST", p.url, nil, "Upload-Length", fmt.Sprint(size))
	if err != nil || res.StatusCode != http.StatusCreated {
		t.Fatalf("POST: %v %v %s", err, res, text)
	}
	at := res.Header.Get("Location")
	return at[strings.LastIndexByte(at, '/')+1:]
}

// offset asks an instance how much of the upload it has.
func (p *process) offset(t *testing.T, c *http.Client, id string) string {
	t.Helper()
	res, _, err := call(t.Context(), c, "HEAD", p.url+id, nil)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("HEAD: %v %v", err, res)
	}
	return res.Header.Get("Upload-Offset")
}

// patch sends a part of the upload, to its end.
func (p *process) patch(t *testing.T, c *http.Client, id, offset, body string) {
	t.Helper()
	res, text, err := call(t.Context(), c, "PATCH", p.url+id, strings.NewReader(body), partOf(offset)...)
	if err != nil || res.StatusCode != http.StatusNoContent {
		t.Fatalf("PATCH: %v %v %s", err, res, text)
	}
}

func partOf(offset string) []string {
	return []string{"Content-Type", "application/offset+octet-stream", "Upload-Offset", offset}
}

// stalled is a PATCH whose client sends no more, for now.
type stalled struct {
	more *io.PipeWriter
	done chan answered
}

type answered struct {
	status int
	text   string
	err    error
}

// stall begins to send at an instance and returns when begin is in the store: the request then
// holds its lock.
func (w *world) stall(t *testing.T, c *http.Client, p *process, id, begin string) *stalled {
	t.Helper()
	body, more := io.Pipe()
	s := &stalled{more, make(chan answered, 1)}
	go func() {
		res, text, err := call(context.WithoutCancel(t.Context()), c, "PATCH", p.url+id, body, partOf("0")...)
		a := answered{text: text, err: err}
		if res != nil {
			a.status = res.StatusCode
		}
		s.done <- a
	}()
	t.Cleanup(func() { more.Close() })
	if _, err := more.Write([]byte(begin)); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(generous); w.content(t, id) != begin; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the store has %q, want %q", w.content(t, id), begin)
		}
	}
	return s
}

func (s *stalled) answer(t *testing.T) answered {
	t.Helper()
	select {
	case a := <-s.done:
		return a
	case <-time.After(generous):
		t.Fatal("the stalled request has no answer")
		return answered{}
	}
}

func (w *world) content(t *testing.T, id string) string {
	t.Helper()
	b, err := os.ReadFile(w.folder + "/" + id)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
