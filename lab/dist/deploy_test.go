package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"
)

// deploy is a file of examples/deploy with this machine's programs in the place of those that
// it names.
func deploy(t *testing.T, name, job string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("/usr/bin/leasehold", the.program, "/usr/bin/backup", job).Replace(string(text))
}

// backup is a job that writes a line, and takes a while.
func backup(t *testing.T) (job string, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	job = filepath.Join(dir, "backup")
	if err := os.WriteFile(job, []byte("#!/bin/sh\necho began >>"+dir+"/log\nsleep 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return job, func() int {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		return strings.Count(string(text), "began")
	}
}

// twice starts what a file says on two machines at once, and returns their exit codes.
func twice(t *testing.T, start func(context.Context) *exec.Cmd) (codes []int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var both []*exec.Cmd
	for range 2 {
		c := start(ctx)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		both = append(both, c)
	}
	for _, c := range both {
		_ = c.Wait()
		codes = append(codes, c.ProcessState.ExitCode())
	}
	return codes
}

var minHold = regexp.MustCompile(`--min-hold (\w+)`)

// quick shortens the time that a job keeps its name: its end is not what is tested.
func quick(text string) string { return minHold.ReplaceAllString(text, "--min-hold 6s") }

// keeps is how long a command keeps its name at least.
func keeps(t *testing.T, command string) time.Duration {
	t.Helper()
	found := minHold.FindStringSubmatch(command)
	if found == nil {
		t.Fatalf("no --min-hold in %q", command)
	}
	d, err := time.ParseDuration(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// setting is what a unit says, or what systemd takes where it says nothing.
func setting(unit, name, otherwise string) string {
	_, value, found := strings.Cut(unit, "\n"+name+"=")
	if !found {
		return otherwise
	}
	value, _, _ = strings.Cut(value, "\n")
	return value
}

// A short job is over before the last machine asks. Only --min-hold keeps it from a second run.
func TestTheNameIsKeptUntilEveryMachineHasAsked(t *testing.T) {
	const clocks = 20 * time.Second // how far those of the machines may differ
	timer := deploy(t, "backup.timer", "")
	spread := clocks
	for _, s := range []string{setting(timer, "RandomizedDelaySec", "0s"), setting(timer, "AccuracySec", "1m")} {
		d, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		spread += d
	}
	if kept := keeps(t, deploy(t, "backup.service", "")); kept <= spread {
		t.Errorf("systemd starts the job on two machines up to %v apart, and the name is kept for %v", spread, kept)
	}
	if s := setting(timer, "Persistent", "false"); s != "false" {
		t.Errorf("Persistent=%s: a machine that was off runs the job again at its boot", s)
	}

	var c batch.CronJob
	if err := yaml.UnmarshalStrict([]byte(deploy(t, "cronjob.yaml", "")), &c); err != nil {
		t.Fatal(err)
	}
	late := time.Duration(*c.Spec.StartingDeadlineSeconds) * time.Second
	command := strings.Join(c.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Command, " ")
	if kept := keeps(t, command); kept <= late+clocks {
		t.Errorf("a cluster starts the Job up to %v late, and the name is kept for %v", late, kept)
	}
}

func one(codes []int, code int) bool {
	return codes[0]+codes[1] == code && codes[0]*codes[1] == 0
}

func TestSystemdReadsTheUnits(t *testing.T) {
	analyze := need(t, "systemd-analyze")
	job, runs := backup(t)
	dir := t.TempDir()
	var units []string
	for _, name := range []string{"backup.service", "backup.timer", "leasehold.service", "leasehold.socket"} {
		units = append(units, filepath.Join(dir, name))
		text := deploy(t, name, job)
		if strings.Contains(text, "%d") {
			t.Errorf("%s has %%d, which only systemd 251 and later know: give ${CREDENTIALS_DIRECTORY}", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out := must(t, analyze, append([]string{"verify", "--man=no"}, units...)...); out != "" {
		t.Errorf("systemd-analyze says\n%s", out)
	}
	unit := quick(deploy(t, "backup.service", job))
	_, line, _ := strings.Cut(unit, "\nExecStart=")
	line, _, _ = strings.Cut(line, "\n")
	credentials := t.TempDir()
	if err := os.WriteFile(filepath.Join(credentials, "engine"), []byte("dir://"+t.TempDir()), 0o600); err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(strings.ReplaceAll(line, "${CREDENTIALS_DIRECTORY}", credentials)) // it has no quotes
	codes := twice(t, func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, words[0], words[1:]...) })
	if !one(codes, 75) || runs() != 1 || !strings.Contains(unit, "\nSuccessExitStatus=75\n") {
		t.Errorf("two machines ended with %v, and the job ran %d times", codes, runs())
	}
}

func TestTheLineOfCronRunsOnce(t *testing.T) {
	job, runs := backup(t)
	file := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(file, []byte("dir://"+t.TempDir()), 0o600); err != nil {
		t.Fatal(err)
	}
	var env []string
	command := ""
	for line := range strings.Lines(quick(deploy(t, "backup.cron", job))) {
		line = strings.TrimSpace(line)
		switch words := strings.Fields(line); {
		case line == "" || line[0] == '#':
		case len(words) == 1:
			env = append(env, strings.Replace(line, "/etc/leasehold/engine", file, 1))
		case len(words) < 7 || strings.Contains(line, "%"):
			t.Fatalf("cron does not read %q", line)
		default:
			command = strings.Join(words[6:], " ")
		}
	}
	codes := twice(t, func(ctx context.Context) *exec.Cmd {
		c := exec.CommandContext(ctx, "/bin/sh", "-c", command)
		c.Env = append([]string{"HOME=/root", "SHELL=/bin/sh", "PATH=/usr/bin:/bin"}, env...) // all that cron gives
		return c
	})
	if codes[0] != 0 || codes[1] != 0 || runs() != 1 {
		t.Errorf("two machines ended with %v, and the job ran %d times: no line fails, and one runs the job", codes, runs())
	}
}

func TestTheCronJobIsOneOfTheAPI(t *testing.T) {
	job, runs := backup(t)
	var c batch.CronJob
	if err := yaml.UnmarshalStrict([]byte(deploy(t, "cronjob.yaml", job)), &c); err != nil {
		t.Fatal(err)
	}
	spec := c.Spec.JobTemplate.Spec
	container := spec.Template.Spec.Containers[0]
	rule := spec.PodFailurePolicy.Rules[0].OnExitCodes
	if c.APIVersion != "batch/v1" || c.Kind != "CronJob" || *rule.ContainerName != container.Name || rule.Values[0] != 75 ||
		spec.Template.Spec.RestartPolicy != "Never" || len(container.Env) != 2 || container.Env[1].Name != "LEASEHOLD_ENGINE" {
		t.Errorf("%+v", spec)
	}
	words := strings.Split(quick(strings.Join(container.Command, " ")), " ")
	engine := "LEASEHOLD_ENGINE=dir://" + t.TempDir() // the file names a Redis
	codes := twice(t, func(ctx context.Context) *exec.Cmd {
		c := exec.CommandContext(ctx, words[0], words[1:]...)
		c.Env = append(os.Environ(), engine)
		return c
	})
	if !one(codes, 75) || runs() != 1 {
		t.Errorf("two clusters ended with %v, and the job ran %d times", codes, runs())
	}
}
