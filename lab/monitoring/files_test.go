package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"leasehold/lab/servers"
)

const (
	root       = "../.."
	folder     = root + "/monitoring"
	alertsFile = folder + "/alerts.yml"
)

func promtool(t *testing.T, args ...string) {
	t.Helper()
	servers.Need(t, "promtool")
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "FAILED") {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPromtoolTakesTheRules(t *testing.T) {
	promtool(t, "check", "rules", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
}

// alerts are the names of the rules.
func alerts(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(content(t, alertsFile), -1) {
		names = append(names, m[1])
	}
	if len(names) < 5 {
		t.Fatalf("only the rules %v were found", names)
	}
	return names
}

// A rule that no test has seen silent and firing may do either for ever.
func TestEveryRuleIsSeenSilentAndFiring(t *testing.T) {
	tests := content(t, folder+"/alerts_test.yml")
	for _, name := range alerts(t) {
		if !strings.Contains(tests, "{alertname: "+name+", eval_time: ") {
			t.Errorf("alerts_test.yml does not see %s silent", name)
		}
		if !regexp.MustCompile(`- alertname: ` + name + `\n +eval_time: \w+\n +exp_alerts:`).MatchString(tests) {
			t.Errorf("alerts_test.yml does not see %s firing", name)
		}
	}
}

// dashboard is the part of Grafana's model that is looked at here.
type dashboard struct {
	SchemaVersion int
	UID           string
	Panels        []struct {
		ID         int
		Type       string
		Title      string
		Datasource struct{ UID string }
		GridPos    struct{ H, W, X, Y int }
		Targets    []struct {
			RefID      string
			Expr       string
			Datasource struct{ UID string }
		}
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(content(t, folder+"/dashboard.json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// expressions are those of all panels, as Grafana asks them with one job chosen.
func expressions(t *testing.T, job string) (all []string) {
	t.Helper()
	fill := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", job, "$instance", ".*", "$engine", ".*", "$exporter", ".*", "$prefix", ".*")
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			e := fill.Replace(target.Expr)
			if strings.Contains(e, "$") {
				t.Errorf("%s has a variable that is not there: %s", p.Title, e)
			}
			all = append(all, e)
		}
	}
	return all
}

func TestTheDashboardIsOne(t *testing.T) {
	d := readDashboard(t)
	if d.SchemaVersion < 39 || d.UID == "" {
		t.Errorf("the schema is %d and the uid %q, want a current one and a name", d.SchemaVersion, d.UID)
	}
	ids, taken := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other := ids[p.ID]; other != "" || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %q has the number %d, as %q has", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		g := p.GridPos
		if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("panel %q is outside of the 24 columns: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panel %q covers %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.RefID == "" || target.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q: the target %q of %q is not one of its own from the chosen Prometheus", p.Title, target.RefID, target.Datasource.UID)
			}
			refs[target.RefID] = true
		}
		if len(refs) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("panel %q shows nothing of the chosen Prometheus", p.Title)
		}
	}
	if list := d.Templating.List; len(list) == 0 || list[0].Name != "datasource" || list[0].Type != "datasource" {
		t.Error("the first variable is not the Prometheus to choose")
	}
}

// promtool reads each expression as a rule.
func TestPromtoolTakesTheDashboard(t *testing.T) {
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var rules []rule
	for _, e := range expressions(t, "shop") {
		rules = append(rules, rule{"leasehold:panel", e})
	}
	b, err := json.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", "--lint=none", file)
}
