package records

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/queuestore"

	"leasehold/engine/filelock/internal/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is an engine over the records of a directory, and nothing else: nobody is
// told anything, nobody dies, and it sweeps when it is told to.
type client struct {
	*queuestore.Engine
	records *Records
}

func openEngine(t testing.TB, dir string) *client {
	t.Helper()
	root, err := disk.MakeRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := queuestore.NewClient()
	c, err := Open(root, dir, &Options{
		Owner:   name,
		Most:    64,
		Boot:    func() (boot [16]byte) { return boot },
		Clock:   func() time.Duration { return time.Since(epoch) },
		Dead:    func(string) bool { return false },
		Shed:    func() {},
		Explain: func(_ string, err error, _ bool) error { return err },
	})
	if err != nil {
		t.Fatal(err)
	}
	e := &client{queuestore.New(name, &store{c, root}, &queuestore.Options{Poll: 10 * time.Millisecond}), c}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// epoch is when the clock of all clients began.
var epoch = time.Now().Add(-time.Hour)

// store is the least that queuestore takes.
type store struct {
	records *Records
	root    disk.Dir
}

func (s *store) Guarantees() engine.Guarantees {
	return engine.Guarantees{Fencing: engine.FencingAlways, Scope: engine.ScopeMachine, Detach: true}
}

func (s *store) Change(ctx context.Context, name string, change func(*queuestore.Record) error) error {
	_, err := s.records.Change(ctx, name, change)
	return err
}

func (s *store) Read(_ context.Context, name string) (queuestore.Record, error) {
	return s.records.Read(name)
}

func (s *store) Records(ctx context.Context, prefix, after string) ([]queuestore.Record, string, error) {
	return s.records.List(ctx, prefix, after)
}

func (s *store) Notify(string, engine.Claim) {}

func (s *store) Close() error {
	s.records.Close(context.Background())
	s.root.Close()
	return nil
}

var mustJoin, mustLeave = testutil.Joins, testutil.Leaves

func exclusive(name string) engine.Request { return testutil.Lasting(name, time.Hour) }

// recordFile is the path of the one number a name's record has.
func recordFile(t testing.TB, dir, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, Path(name), "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of %q: %v %v", name, files, err)
	}
	return files[0]
}
