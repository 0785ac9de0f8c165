package cells

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/internal/kit"
	"leasehold/engine/linestore"

	"leasehold/engine/filelock/internal/disk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is an engine over the cells of a directory, and nothing else: nobody is
// told anything, nobody dies, and it sweeps when it is told to.
type client struct {
	*linestore.Engine
	cells *Cells
}

func openEngine(t testing.TB, dir string) *client {
	t.Helper()
	root, err := disk.MakeRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	name := linestore.NewClient()
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
	e := &client{linestore.New(name, &store{c, root}, &linestore.Options{Poll: 10 * time.Millisecond}), c}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// epoch is when the clock of all clients began.
var epoch = time.Now().Add(-time.Hour)

// store is the least that linestore takes.
type store struct {
	cells *Cells
	root  disk.Dir
}

func (s *store) Guarantees() engine.Guarantees {
	return engine.Guarantees{Fencing: engine.FencingAlways, Scope: engine.ScopeMachine, Detach: true}
}

func (s *store) Change(ctx context.Context, name string, change func(*linestore.Cell) error) error {
	_, err := s.cells.Change(ctx, name, change)
	return err
}

func (s *store) Read(_ context.Context, name string) (linestore.Cell, error) {
	return s.cells.Read(name)
}

func (s *store) Cells(ctx context.Context, prefix, after string) ([]linestore.Cell, string, error) {
	return s.cells.List(ctx, prefix, after)
}

func (s *store) Tell(string, engine.Claim) {}

func (s *store) Close() error {
	s.cells.Close(context.Background())
	s.root.Close()
	return nil
}

var mustJoin, mustLeave = kit.Joins, kit.Leaves

func exclusive(name string) engine.Request { return kit.Lasting(name, time.Minute) }

// recordFile is the path of the one number a name's record has.
func recordFile(t testing.TB, dir, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, Path(name), "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of %q: %v %v", name, files, err)
	}
	return files[0]
}
