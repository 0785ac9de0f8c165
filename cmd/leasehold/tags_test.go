//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// clients are the libraries that speak to stores, by the tag that leaves them out.
var clients = map[string]string{
	"no_redis": "github.com/redis/rueidis", "no_zookeeper": "github.com/go-zookeeper/zk", "no_etcd": "google.golang.org/grpc",
	"no_mysql": "github.com/go-sql-driver/mysql", "no_postgres": "github.com/jackc/pgx/v5",
}

// What the program is without an engine is compiled by nothing else.
func TestATagLeavesAnEngineOutOfTheProgram(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("*.go")
	if err != nil || len(sources) == 0 {
		t.Fatal(err)
	}
	for _, file := range sources { // the go command, which remembers results, looks at them again
		if _, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	var tags []string
	for tag, library := range clients {
		tags = append(tags, tag)
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", tag, ".").Output()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains("\n"+string(out), "\n"+library+"\n") {
			t.Errorf("with %s the program has %s", tag, library)
		}
	}
	all := strings.Join(tags, " ")
	if out, err := exec.CommandContext(t.Context(), "go", "vet", "-tags", all, ".").CombinedOutput(); err != nil {
		t.Errorf("go vet -tags %q: %v\n%s", all, err, out)
	}
}
