package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// IsLeader asks the member whether it leads.
func (m *EtcdServer) IsLeader() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL()+"/v3/maintenance/status", strings.NewReader("{}"))
	if err != nil {
		return false, err
	}
	answer, err := m.http.Do(r)
	if err != nil {
		return false, err
	}
	defer answer.Body.Close()
	var status struct {
		Header struct {
			MemberID string `json:"member_id"`
		}
		Leader string
	}
	if err := json.NewDecoder(answer.Body).Decode(&status); err != nil {
		return false, err
	}
	return status.Leader != "" && status.Leader == status.Header.MemberID, nil
}

// Metric is one of the figures that the member shows to Prometheus: the sum over
// the labels that pass.
func (m *EtcdServer) Metric(name string, pass func(labels string) bool) (sum float64, err error) {
	answer, err := m.http.Get(m.URL() + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		i := strings.LastIndexByte(rest, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[i:]), 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		if pass == nil || pass(rest[:i]) {
			sum += value
		}
	}
	return sum, nil
}

// healthy asks the member whether it can commit.
func (m *EtcdServer) healthy() error {
	answer, err := m.http.Get(m.URL() + "/health")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var health struct{ Health, Reason string }
	if err := json.NewDecoder(answer.Body).Decode(&health); err != nil {
		return err
	}
	if health.Health != "true" {
		return fmt.Errorf("%s is not healthy: %s", m.name, health.Reason)
	}
	return nil
}
