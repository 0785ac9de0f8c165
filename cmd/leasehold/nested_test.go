//go:build linux

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Each of these would wait for itself for ever.
func TestRunInsideItself(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = append(p.env, "L="+program, "OTHER=dir://"+p.file("other"), "ALIAS=dir://"+p.dir+"/../locks")
	for _, c := range []struct {
		name   string
		flags  []string
		script string
		code   int
		says   string // on stderr; empty: nothing
		prints string
	}{
		{"refused", nil, `$L run x -- echo in`, 75, "--reentrant", ""},
		{"its own exit code", nil, `$L run x --conflict-exit-code 9 -- echo in`, 9, "would wait for itself", ""},
		{"nonblock", nil, `$L run x --nonblock -- echo in`, 75, "would wait for itself", ""},
		{"acquire", nil, `$L acquire x`, 75, "would wait for itself", ""},
		{"acquire has nothing to run under a hold", nil, `$L acquire x --shared`, 75, "continue under that hold", ""},
		{"nothing helps who wants more", []string{"--shared"}, `$L run x -- echo in`, 75, "less than this run asks for: ask for more in the run above", ""},
		{"shared in shared, behind a writer it would wait", []string{"--shared"}, `$L run x --shared -- echo in`, 75, "as shared", ""},
		{"a chain", nil, `$L run y -- $L run x -- echo in`, 75, "x is held by the run above", ""},
		{"the same engine by another URL", nil, `LEASEHOLD_ENGINE=$ALIAS $L run x -- echo in`, 75, "would wait for itself", ""},
		{"another name", nil, `$L run y -- echo in`, 0, "", "in\n"},
		{"another engine", nil, `LEASEHOLD_ENGINE=$OTHER $L run x -- echo in`, 0, "", "in\n"},
		{"a chain over another engine", nil, `LEASEHOLD_ENGINE=$OTHER $L run x -- $L run x -- echo in`, 75, "would wait for itself", ""},
		{"without the variable nothing is known", nil, `env -u LEASEHOLD_HELD $L run x --wait 2s -- echo in`, 75, `"x" is held by`, ""},
		{"a variable of somebody else", nil, `LEASEHOLD_HELD=x $L run x -- echo in`, 64, "LEASEHOLD_HELD", ""},
		{"reentrant", nil, `o=$LEASEHOLD_TOKEN $L run x --reentrant -- sh -c '[ $o = $LEASEHOLD_TOKEN ] && echo $LEASEHOLD_NAME'`, 0, "", "x\n"},
		{"reentrant in a chain", nil, `o=$LEASEHOLD_TOKEN $L run y -- $L run x --reentrant -- sh -c '[ $o = $LEASEHOLD_TOKEN ] && echo $LEASEHOLD_NAME'`, 0, "", "x\n"},
		{"reentrant twice", nil, `$L run x --reentrant -- $L run x --reentrant -- echo in`, 0, "", "in\n"},
		{"reentrant and then not", nil, `$L run x --reentrant -- $L run x -- echo in`, 75, "would wait for itself", ""},
		{"reentrant where nothing is held", nil, `$L run y --reentrant -- echo in`, 0, "", "in\n"},
		{"reentrant code", nil, `$L run x --reentrant -- sh -c 'exit 9'`, 9, "", ""},
		{"reentrant cannot be run", nil, `$L run x --reentrant -- $L/x`, 126, "not a directory", ""},
		{"shared within exclusive", nil, `$L run x --reentrant --shared -- echo in`, 0, "", "in\n"},
		{"exclusive within shared", []string{"--shared"}, `$L run x --reentrant -- echo in`, 75, "less than", ""},
		{"permits", []string{"--permits", "2", "--of", "3"}, `$L run x --reentrant --permits 1 --of 3 -- echo in`, 0, "", "in\n"},
		{"more permits", []string{"--permits", "1", "--of", "3"}, `$L run x --reentrant --permits 2 --of 3 -- echo in`, 75, "less than", ""},
		{"the pass of a shared hold", []string{"--shared"}, `o=$LEASEHOLD_TOKEN $L run x --reentrant --shared -- sh -c '[ "$o" = "$LEASEHOLD_TOKEN" ] && echo "${o#*;}"'`, 0, "", "shared\n"},
		{"shared under an exclusive hold is exclusive", nil, `o=$LEASEHOLD_TOKEN $L run x --reentrant --shared -- sh -c '[ "$o" = "$LEASEHOLD_TOKEN" ] && echo in'`, 0, "", "in\n"},
		{"permits have no pass", []string{"--permits", "2", "--of", "3"}, `echo "[$LEASEHOLD_TOKEN]"; $L run x --reentrant --permits 1 --of 3 -- sh -c 'echo "[$LEASEHOLD_TOKEN]"'`, 0, "", "[]\n[]\n"},
		{"nor that of the run above", nil, `$L run y --permits 1 --of 3 -- sh -c 'echo "[$LEASEHOLD_TOKEN]"'`, 0, "", "[]\n"},
		{"one variable of each name", nil, `$L run y -- env | grep -c ^LEASEHOLD_NAME=`, 0, "", "1\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"run", "x"}, c.flags...)
			code, out, stderr := p.answered(append(args, "--", "sh", "-c", c.script)...)
			if code != c.code || out != c.prints {
				t.Errorf("exit code %d, want %d; printed %q, want %q; said %q", code, c.code, out, c.prints, stderr)
			}
			if c.says == "" && stderr != "" {
				t.Errorf("said %q", stderr)
			} else if c.says != "" {
				one(t, stderr, c.says)
			}
		})
	}
}

// An engine whose tokens need not rise gives none to show, and none of a run above stays.
func TestNoTokenWithoutFencing(t *testing.T) {
	t.Parallel()
	p, s := redisPlace(t)
	p.env = append(os.Environ(), "L="+program, "LEASEHOLD_ENGINE=redisson://"+s.Addr+"?kind=lock", "LEASEHOLD_TOKEN=7")
	out := p.must("run", "x", "--", "sh", "-c", `echo "[$LEASEHOLD_TOKEN]"; LEASEHOLD_TOKEN=7 $L run x --reentrant --nonblock -- sh -c 'echo "[$LEASEHOLD_TOKEN]"'`)
	if out != "[]\n[]\n" {
		t.Errorf("LEASEHOLD_TOKEN is %q", out)
	}
}

// What outlives its run waits its turn like everybody.
func TestLeftBehindIsNotNested(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	done := p.file("done")
	cmd := exec.Command(program, "run", "x", "--", "sh", "-c", `(while [ ! -e $GO ]; do sleep 0.02; done; $L run x -- sh -c "echo in > $DONE"; : > $DONE.over) >/dev/null 2>&1 &`)
	cmd.Env = append(p.env, "L="+program, "GO="+p.file("go"), "DONE="+done)
	if x := p.startCmd(cmd); x.wait(t) != 0 {
		t.Fatal(x.err.String())
	}
	p.start("run", "x", "--", "sh", "-c", "while [ ! -e "+p.file("go")+" ]; do sleep 0.02; done; sleep 0.5")
	p.held("x")
	if err := os.WriteFile(p.file("go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if text := p.content(done); text != "in" {
		t.Errorf("%q", text)
	}
	p.exists(done + ".over") // before its folder is removed
}

// A command under an outer hold ends with that.
func TestReentrantEndsWithTheOuterHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pid := p.file("pid")
	x := p.start("run", "x", "--", "sh", "-c", program+" run x --reentrant -- sh -c 'echo $$ > "+pid+"; exec sleep 60'; sleep 60")
	inner, err := strconv.Atoi(p.content(pid))
	if err != nil {
		t.Fatal(err)
	}
	p.must("revoke", "x", "--ticket", strconv.FormatUint(p.held("x").Ticket, 10), "--now", "--yes")
	if code := x.wait(t); code != 76 || !strings.Contains(x.err.String(), "somebody revoked it") {
		t.Errorf("exit code %d: %s", code, x.err.String())
	}
	if _, lives := look(inner); lives {
		t.Error("the inner command runs")
	}
}
