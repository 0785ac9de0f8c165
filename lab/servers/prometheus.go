package servers

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// PrometheusOptions are the choices of one Prometheus.
type PrometheusOptions struct {
	// Targets are the pages that it scrapes: host:port of each job. The path is /metrics.
	Targets map[string]string

	Rules []string      // files with rules
	Every time.Duration // how often it scrapes, and evaluates its rules; 0: one second
}

// PrometheusServer is one prometheus process.
type PrometheusServer struct {
	*instance
	http *http.Client
}

// Prometheus starts one for a test.
func Prometheus(t TB, o *PrometheusOptions) *PrometheusServer {
	t.Helper()
	Need(t, "prometheus")
	s, err := StartPrometheus(o)
	if err != nil {
		t.Fatalf("prometheus: %v", err)
	}
	closing(t, s.Tail, s.Close)
	return s
}

// StartPrometheus starts one, for a program. Close ends it and removes its folder.
func StartPrometheus(o *PrometheusOptions) (_ *PrometheusServer, err error) {
	in, err := newInstance("prometheus", nil)
	if err != nil {
		return nil, err
	}
	s := &PrometheusServer{instance: in, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	conf, err := o.config()
	if err != nil {
		return nil, err
	}
	file, data := filepath.Join(s.Dir, "prometheus.yml"), filepath.Join(s.Dir, "data")
	if err := os.WriteFile(file, conf, 0o600); err != nil {
		return nil, err
	}
	return s, s.serve(func(port string) Command {
		return Command{Program: "prometheus", Dir: s.Dir, Args: []string{
			"--config.file=" + file, "--storage.tsdb.path=" + data, "--web.listen-address=127.0.0.1:" + port, "--log.level=warn",
		}}
	}, func() error {
		// Whoever answers at the port could be somebody else's: it must have our folder.
		var flags map[string]string
		if err := s.ask("status/flags", nil, &flags); err != nil {
			return err
		}
		if flags["storage.tsdb.path"] != data {
			return fmt.Errorf("another Prometheus answers at %s", s.Addr)
		}
		return nil
	})
}

// config is the file, in JSON, which is YAML too.
func (o *PrometheusOptions) config() ([]byte, error) {
	every := o.Every
	if every == 0 {
		every = time.Second
	}
	var jobs []map[string]any
	for job, target := range o.Targets {
		jobs = append(jobs, map[string]any{"job_name": job, "static_configs": []any{map[string]any{"targets": []string{target}}}})
	}
	var rules []string
	for _, r := range o.Rules {
		path, err := filepath.Abs(r)
		if err != nil {
			return nil, err
		}
		rules = append(rules, path)
	}
	ms := strconv.FormatInt(every.Milliseconds(), 10) + "ms"
	return json.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": ms, "scrape_timeout": ms, "evaluation_interval": ms},
		"scrape_configs": jobs,
		"rule_files":     rules,
	})
}

// URL is where it serves its pages and its API.
func (s *PrometheusServer) URL() string { return "http://" + s.Addr }

// Sample is one value of the answer to a query.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query asks for what expr is now: an instant vector.
func (s *PrometheusServer) Query(expr string) ([]Sample, error) {
	var answer struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any // when, and how much as text
		}
	}
	if err := s.ask("query", url.Values{"query": {expr}}, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	var all []Sample
	for _, r := range answer.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expr, err)
		}
		all = append(all, Sample{r.Metric, v})
	}
	return all, nil
}

// Alert is an alert that a rule has raised.
type Alert struct {
	Labels, Annotations map[string]string
	State               string // pending or firing
}

// Alerts returns those that are pending or firing.
func (s *PrometheusServer) Alerts() ([]Alert, error) {
	var answer struct{ Alerts []Alert }
	err := s.ask("alerts", nil, &answer)
	return answer.Alerts, err
}

func (s *PrometheusServer) ask(what string, args url.Values, into any) error {
	r, err := s.http.Get(s.URL() + "/api/v1/" + what + "?" + args.Encode())
	if err != nil {
		return err
	}
	defer r.Body.Close()
	answer := struct {
		Status, Error string
		Data          json.RawMessage
	}{}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s answers %s: %w", what, r.Status, err)
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}
