package service

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	specerrors "github.com/pb33f/libopenapi-validator/errors"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
)

// spec compares requests and answers with openapi.json. It is strict: what the document does
// not mention is an error too.
type spec struct {
	model *v3.Document
	check validator.Validator

	mu   sync.Mutex
	seen map[string]bool // "operation status"
}

// readSpec is done once for all tests: each reading compiles every schema.
var readSpec = sync.OnceValues(func() (*spec, error) {
	doc, err := libopenapi.NewDocument(openAPI)
	if err != nil {
		return nil, err
	}
	model, err := doc.BuildV3Model()
	if err != nil {
		return nil, err
	}
	s := &spec{model: &model.Model, seen: map[string]bool{}}
	s.check = validator.NewValidatorFromV3Model(s.model, config.WithFormatAssertions(), config.WithStrictMode(),
		config.WithoutSecurityValidation(), // whether it is needed depends on the Options
		config.WithStrictIgnoredHeadersExtra("x-content-type-options", "x-accel-buffering"))
	s.check.SetDocument(doc) // for ValidateDocument
	return s, nil
})

// described is a handler whose test fails when an answer is not what openapi.json says, or
// when a request succeeds that openapi.json does not allow.
func described(t testing.TB, h http.Handler) http.Handler {
	t.Helper()
	s, err := readSpec()
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/engine/") || strings.HasPrefix(r.URL.Path, "/v1/tofu") { // OpenAPI has no method LOCK
			h.ServeHTTP(w, r) // the document leaves it out
			return
		}
		x := &exchange{ResponseWriter: w, request: r}
		r.Body = readCloser{io.TeeReader(r.Body, &x.asked), r.Body}
		h.ServeHTTP(x, r)
		if r.Context().Err() == nil || x.status != 0 && !x.stream() { // else the caller went: there is no answer
			for _, problem := range s.problems(x) {
				t.Errorf("%s %s answers %d %s: openapi.json does not say so: %s", r.Method, r.URL, x.status, x.answered.String(), problem)
			}
		}
	})
}

// exchange is a request with its answer.
type exchange struct {
	http.ResponseWriter
	request  *http.Request
	status   int
	asked    bytes.Buffer // what the handler read
	answered bytes.Buffer
}

type readCloser struct {
	io.Reader
	io.Closer
}

func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	x.answered.Write(b)
	return x.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

func (x *exchange) stream() bool { return x.Header().Get("Content-Type") == "text/event-stream" }

// plain is the request as the document has it: a name is one segment of the path.
func (x *exchange) plain() *http.Request {
	r := x.request.Clone(x.request.Context())
	r.Body = io.NopCloser(bytes.NewReader(x.asked.Bytes()))
	if x.asked.Len() == 0 {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json") // the service does not need it
	}
	path := r.URL.EscapedPath()
	for _, before := range []string{"/v1/locks/", "/v1/queues/", "/v1/why/"} {
		if name, ok := strings.CutPrefix(path, before); ok {
			if path = before + strings.ReplaceAll(name, "/", "%2F"); name == "" {
				path = strings.TrimSuffix(before, "/")
			}
		}
	}
	if plain, err := url.PathUnescape(path); err == nil {
		r.URL.Path, r.URL.RawPath = plain, path
	}
	return r
}

// problems is all in which an answer differs from the document.
func (s *spec) problems(x *exchange) (all []string) {
	r := x.plain()
	operation := s.operation(r)
	switch {
	case !clean(x.request):
		if x.status != http.StatusBadRequest && x.status != http.StatusUnauthorized {
			all = append(all, "a path that is not clean was served")
		}
		return all
	case operation == "":
		if !slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusTooManyRequests}, x.status) {
			all = append(all, "it has no such path and method")
		}
		return all
	}
	s.mu.Lock() // the library writes into its schemas while it checks
	defer s.mu.Unlock()
	s.seen[operation+" "+strconv.Itoa(x.status)] = true
	if x.status < 300 {
		if ok, errs := s.check.ValidateHttpRequestSync(r); !ok {
			all = append(all, reasons("the request was wrong", errs)...)
		}
		r.Body = io.NopCloser(bytes.NewReader(x.asked.Bytes()))
	}
	if x.status == http.StatusOK && operation == "describe" {
		if !bytes.Equal(x.answered.Bytes(), openAPI) {
			all = append(all, "it is another document")
		}
		return all
	}
	if x.stream() {
		all = append(all, s.events(x.answered.String())...)
	}
	answer := &http.Response{StatusCode: x.status, Header: x.Header().Clone(), Request: r, Body: io.NopCloser(bytes.NewReader(x.answered.Bytes()))}
	if ok, errs := s.check.ValidateHttpResponse(r, answer); !ok {
		all = append(all, reasons("the answer is another", errs)...)
	}
	return all
}

// operation is the ID of what a request asks for, or empty.
func (s *spec) operation(r *http.Request) string {
	path := r.URL.EscapedPath()
	for pattern, item := range s.model.Paths.PathItems.FromOldest() {
		before, named := strings.CutSuffix(pattern, "{name}")
		rest, fits := strings.CutPrefix(path, before)
		if fits = fits && (named && rest != "" && !strings.Contains(rest, "/") || !named && rest == ""); !fits {
			continue
		}
		if op := item.GetOperations().GetOrZero(strings.ToLower(r.Method)); op != nil {
			return op.OperationId
		}
	}
	return ""
}

// events compares the data of server-sent events. The last one may be cut off.
func (s *spec) events(stream string) (all []string) {
	kinds := map[string]string{"queue": "Queue", "failure": "Problem"}
	kind := ""
	for line := range strings.Lines(stream) {
		what, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if what == "event" {
			kind = value
		}
		if what != "data" || !strings.HasSuffix(line, "\n") {
			continue
		}
		schema := s.model.Components.Schemas.GetOrZero(kinds[kind])
		if schema == nil {
			all = append(all, "no event is called "+kind)
			continue
		}
		if ok, errs := schema_validation.NewSchemaValidator().ValidateSchemaString(schema.Schema(), value); !ok {
			all = append(all, reasons("an event is another", errs)...)
		}
	}
	return all
}

func reasons(what string, errs []*specerrors.ValidationError) (all []string) {
	for _, e := range errs {
		text := what + ": " + e.Message + ": " + e.Reason
		for _, f := range e.SchemaValidationErrors {
			text += "; " + f.Error()
		}
		all = append(all, text)
	}
	return all
}

func TestTheDocumentIsOpenAPI31(t *testing.T) {
	s, err := readSpec()
	if err != nil {
		t.Fatal(err)
	}
	if ok, errs := s.check.ValidateDocument(); !ok {
		t.Error(strings.Join(reasons("openapi.json", errs), "\n"))
	}
	if s.model.Version != "3.1.0" {
		t.Errorf("its version is %s", s.model.Version)
	}
}
