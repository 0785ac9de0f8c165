package engines

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// clients are the libraries that speak to stores, by the tag that leaves them out.
var clients = map[string]string{
	"no_redis": "github.com/redis/rueidis", "no_zookeeper": "github.com/go-zookeeper/zk", "no_etcd": "google.golang.org/grpc",
	"no_mysql": "github.com/go-sql-driver/mysql", "no_postgres": "github.com/jackc/pgx/v5",
}

func TestATagLeavesOneClientOut(t *testing.T) {
	readSources(t)
	for tag, library := range clients {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tag, ".").Output()
		if err != nil {
			t.Fatal(err)
		}
		linked := strings.Fields(string(out))
		for _, other := range clients {
			if has := slices.Contains(linked, other); has != (other != library) {
				t.Errorf("with %s the program has %s: %v", tag, other, has)
			}
		}
	}
}

// The program without any client is built with all tags, so its test is too.
func TestAnEngineThatIsLeftOutIsRefused(t *testing.T) {
	readSources(t)
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-tags", "left_out no_redis no_zookeeper no_etcd no_mysql no_postgres", "-run", "TestLeftOut", "-v", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestLeftOut") {
		t.Errorf("%v\n%s", err, out)
	}
}

// readSources makes the go command, which remembers the results of tests, run a test again
// when a source has changed that this build does not contain.
func readSources(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	for _, f := range files {
		if _, err := os.ReadFile(f); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
}
