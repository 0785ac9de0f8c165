package clients

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"leasehold/engine/memlock"
	"leasehold/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// document is what the clients are generated from.
const document = "../../service/openapi.json"

// live is a service on a store in memory.
type live struct {
	*httptest.Server
	app, operator string      // tokens: who may lock and look, and who may revoke too
	away          atomic.Bool // it answers as if its engine were
	unreached     sync.Map    // methods: a balancer before it reaches no server at the next request
	renewed       chan struct{}
}

func serve(t *testing.T) *live {
	t.Helper()
	s := &live{renewed: make(chan struct{}, 1)}
	var app, operator string
	s.app, app = service.NewToken()
	s.operator, operator = service.NewToken()
	list := filepath.Join(t.TempDir(), "access")
	if err := os.WriteFile(list, []byte("app "+app+" lock,look *\noperator "+operator+" lock,look,revoke *\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	access, err := service.LoadAccess(list)
	if err != nil {
		t.Fatal(err)
	}
	h, err := service.New(memlock.NewStore(nil).Engine(), &service.Options{Access: access})
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			http.Error(w, `{"error": "away"}`, http.StatusServiceUnavailable)
			return
		}
		if _, is := s.unreached.LoadAndDelete(r.Method); is {
			http.Error(w, "<html>", http.StatusBadGateway)
			return
		}
		h.ServeHTTP(w, r)
		if r.Method == http.MethodPut {
			select {
			case s.renewed <- struct{}{}:
			default:
			}
		}
	}))
	t.Cleanup(func() {
		h.Drain()
		s.Close()
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// python is the interpreter of the environment that has the generator.
func python(t *testing.T) string {
	dir := installed(t, "python", []string{"requirements.txt"},
		[]string{"python3", "-m", "venv", "venv"},
		[]string{"./venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "--no-deps", "-r", "requirements.txt"})
	return filepath.Join(dir, "venv", "bin", "python")
}

// TestPython: the client that openapi-python-client makes has the whole contract.
func TestPython(t *testing.T) {
	t.Parallel()
	program, made := python(t), t.TempDir()
	runs(t, ".", nil, program, "-m", "openapi_python_client", "generate", "--path", document,
		"--meta", "none", "--output-path", filepath.Join(made, "leasehold_client"))
	s := serve(t)
	runs(t, "python", []string{"PYTHONPATH=" + made, "PYTHONDONTWRITEBYTECODE=1"}, program, "contract.py", s.URL, s.app, s.operator)
}

// typescript is a folder with the types that openapi-typescript makes and the programs
// here, compiled.
func typescript(t *testing.T) string {
	from := installed(t, "typescript", []string{"package.json", "package-lock.json"},
		[]string{"npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"})
	made := t.TempDir()
	for _, name := range []string{"package.json", "tsconfig.json", "contract.ts", "worker.ts"} {
		copied(t, filepath.Join("typescript", name), filepath.Join(made, name))
	}
	if err := os.Symlink(filepath.Join(from, "node_modules"), filepath.Join(made, "node_modules")); err != nil {
		t.Fatal(err)
	}
	copied(t, document, filepath.Join(made, "openapi.json"))
	runs(t, made, nil, "node", "node_modules/openapi-typescript/bin/cli.js", "openapi.json", "-o", "schema.d.ts")
	runs(t, made, nil, "node", "node_modules/typescript/bin/tsc")
	return made
}

// TestTypeScript: the types that openapi-typescript makes have the whole contract, and the
// worker of the page stops when its lease is lost.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	made := typescript(t)
	t.Run("contract", func(t *testing.T) {
		s := serve(t)
		runs(t, made, nil, "node", "built/contract.js", s.URL, s.app, s.operator)
	})
	t.Run("worker", func(t *testing.T) {
		works(t, "node", filepath.Join(made, "built", "worker.js"))
	})
}

// TestPythonWorker needs no generator.
func TestPythonWorker(t *testing.T) {
	t.Parallel()
	works(t, "python3", "-B", "../../examples/python/worker.py")
}

// TestThePageHasTheFiles compares the programs of docs/clients.md with the files that the
// tests run.
func TestThePageHasTheFiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/clients.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ file, language, from, to string }{
		{"../../examples/python/worker.py", "python", "import http.client", "\n\ndef main"},
		{"typescript/worker.ts", "ts", "import", "\n/** Adds 1"},
	} {
		text, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		begin := bytes.Index(text, []byte(c.from))
		end := bytes.Index(text, []byte(c.to))
		if begin < 0 || end < begin {
			t.Fatalf("%s has no part from %q to %q", c.file, c.from, c.to)
		}
		block := "```" + c.language + "\n" + strings.TrimSpace(string(text[begin:end])) + "\n```\n"
		if !strings.Contains(string(page), block) {
			t.Errorf("docs/clients.md does not have this part of %s:\n%s", c.file, block)
		}
	}
}
