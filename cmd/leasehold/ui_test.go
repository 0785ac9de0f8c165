//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/filelock"
	"leasehold/internal/view"
)

// pages starts leasehold ui, and returns how to read its pages.
func (p *place) pages() (x *process, page func(path string) string) {
	p.Helper()
	x = p.start("ui", "--listen", "127.0.0.1:0")
	address := regexp.MustCompile(`shows the queues at (http://\S+/)\n`)
	var base string
	until(p, "it serves", func() bool {
		if m := address.FindStringSubmatch(x.err.String()); m != nil {
			base = m[1]
		}
		return base != ""
	})
	return x, func(path string) string {
		p.Helper()
		answer, err := http.Get(base + path)
		if err != nil {
			p.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			p.Fatalf("%s: %s %s %v", path, answer.Status, body, err)
		}
		return string(body)
	}
}

var tags = regexp.MustCompile(`<[^>]*>`)

// read is the text of some HTML.
func read(s string) string {
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(s, ""))), " ")
}

// parts are the groups of each match, as text.
func parts(page, pattern string) (all [][]string) {
	for _, m := range regexp.MustCompile("(?s)"+pattern).FindAllStringSubmatch(page, -1) {
		var texts []string
		for _, g := range m[1:] {
			texts = append(texts, read(g))
		}
		all = append(all, texts)
	}
	return all
}

// At a standstill the pages say what ls, why and graph say.
func TestPagesSayWhatCommandsSay(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	eng, err := filelock.New(p.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	join := func(name, label string, permits, limit int32, holds ...engine.Claim) engine.Claim {
		t.Helper()
		o := engine.Owner{Host: "host", PID: 7, Label: label, Since: time.Now()}
		for _, h := range holds {
			o.Holds = append(o.Holds, engine.Hold{Name: h.Name, Ticket: h.Ticket})
		}
		c, err := eng.Join(t.Context(), engine.Request{Name: name, ID: engine.NewID(), Owner: o, Permits: permits, Limit: limit, WaitTTL: time.Hour, TTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const all, hostile = engine.Max, "odd \"name\"\n<b>\u202e"
	a, b := join("a", "A", all, all), join("b", "B", all, all)
	join("b", "A", all, all, a)
	join("a", "B", all, all, b)
	one := join("pool", "one", 2, 5)
	join("pool", "two", 3, 5)
	join("pool", "three", 1, 5)
	join("read", "r1", 1, all)
	join("read", "r2", 1, all)
	w := join("read", "writer", all, all)
	join(hostile, "<script>", all, all, a)
	if err := eng.Revoke(t.Context(), "pool", one.Ticket, false); err != nil {
		t.Fatal(err)
	}
	x, page := p.pages()

	var queues []view.Queue
	if err := json.Unmarshal([]byte(p.must("ls", "--json")), &queues); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, q := range queues {
		held := 0
		for _, c := range q.Claims {
			if c.State == "held" {
				held++
			}
		}
		want = append(want, fmt.Sprint(view.QuoteName(q.Name), q.Claims[0].Ticket, len(q.Claims)-held, held))
	}
	var got []string
	for _, m := range parts(page("?sort=name"), `<tr data-name="([^"]*)" data-ticket="(\d+)">.*?<td class="n">(\d+)</td><td class="n">(\d+)</td>`) {
		got = append(got, fmt.Sprint(m[0], m[1], m[2], " ", m[3]))
	}
	for i := range want {
		want[i] = strings.Join(strings.Fields(want[i]), "")
	}
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), "")
	}
	if len(queues) != 5 || !slices.Equal(got, want) {
		t.Errorf("the overview says\n%q\nls says\n%q", got, want)
	}

	for _, q := range queues {
		at := url.Values{"name": {q.Name}}.Encode()
		text := page("name?" + at)
		claims := parts(text, `<li class="[^"]*" data-ticket="(\d+)">(.*?)</li>`)
		raw := regexp.MustCompile(`(?s)<li class="[^"]*" data-ticket="\d+">.*?</li>`).FindAllString(text, -1)
		if len(claims) != len(q.Claims) {
			t.Fatalf("%q: %d claims of %d", q.Name, len(claims), len(q.Claims))
		}
		for i, c := range q.Claims {
			of := map[string]string{}
			for _, m := range parts(raw[i], `<dd data-is="(\w+)">(.*?)</dd>`) {
				of[m[0]] = m[1]
			}
			state := c.State
			switch {
			case c.Revoked:
				state = "held, revoked"
			case c.State == "held" && c.Contended:
				state = "held, wanted"
			}
			mode := c.Mode
			if mode == "permits" {
				mode = fmt.Sprintf("%d of %d", c.Permits, q.Limit)
			}
			var holds []string
			for _, h := range c.Owner.Holds {
				holds = append(holds, fmt.Sprint(h.Name, ":", h.Ticket))
			}
			for what, value := range map[string]string{
				"ticket": fmt.Sprint(c.Ticket), "token": fmt.Sprint(c.Token), "state": state, "mode": mode,
				"label": c.Owner.Label, "holds": strings.Join(holds, ", "),
			} {
				if said, _, _ := strings.Cut(of[what], ", in a circle"); said != value {
					t.Errorf("%q, place %d: the page says %s %q, and ls %q", q.Name, i, what, of[what], value)
				}
			}
		}
		why := regexp.MustCompile(`(?s)<pre id="why"[^>]*>(.*?)</pre>`).FindStringSubmatch(page("why?" + at))
		if says := p.must("why", q.Name); why == nil || html.UnescapeString(why[1]) != strings.TrimSuffix(says, "\n") {
			t.Errorf("%q: the page says\n%q\nwhy says\n%q", q.Name, why, says)
		}
	}

	// The graph: the same edges, and as many callers in a circle.
	mermaid := p.must("graph")
	names := map[string]string{}
	for _, m := range regexp.MustCompile(`(n\d+)\["(.*)"\]`).FindAllStringSubmatch(mermaid, -1) {
		names[m[1]] = m[2]
	}
	callers := map[string]string{}
	for _, m := range regexp.MustCompile(`(c\d+)\(\["(.*)"\]\)`).FindAllStringSubmatch(mermaid, -1) {
		callers[m[1]] = m[2]
	}
	var wantEdges, gotEdges []string
	for _, m := range regexp.MustCompile(`(c\d+) -\.->\|"waits, (\d+)"\| (n\d+)`).FindAllStringSubmatch(mermaid, -1) {
		wantEdges = append(wantEdges, callers[m[1]]+" waits for "+names[m[3]]+" "+m[2])
	}
	for _, m := range regexp.MustCompile(`(n\d+) -->\|"held, (\d+)"\| (c\d+)`).FindAllStringSubmatch(mermaid, -1) {
		wantEdges = append(wantEdges, callers[m[3]]+" holds "+names[m[1]]+" "+m[2])
	}
	graph := page("graph")
	for _, m := range regexp.MustCompile(`(?s)<tr[^>]*><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td class="n">(\d+)</td></tr>`).FindAllStringSubmatch(graph, -1) {
		name := html.UnescapeString(tags.ReplaceAllString(m[3], ""))
		if strings.HasPrefix(name, `"`) {
			name = hostile
		}
		verb, _, _ := strings.Cut(read(m[2]), ",")
		gotEdges = append(gotEdges, mermaidText(read(m[1]))+" "+verb+" "+mermaidText(name)+" "+m[4])
	}
	slices.Sort(wantEdges)
	slices.Sort(gotEdges)
	if len(wantEdges) != 11 || !slices.Equal(gotEdges, wantEdges) {
		t.Errorf("the page says\n%q\ngraph says\n%q", gotEdges, wantEdges)
	}
	if n, marked := strings.Count(graph, `class="caller circle"`), strings.Count(mermaid, ":::cycle"); n != marked || n != 2 {
		t.Errorf("%d callers are in a circle, and graph says %d", n, marked)
	}
	if arrows := strings.Count(graph, `marker-end="url(#tip)"`); arrows != len(wantEdges) {
		t.Errorf("%d arrows are drawn", arrows)
	}

	// The pages are read-only, and end when they are asked to.
	if text := page("name?name=read"); strings.Contains(text, "revoke?") || !strings.Contains(text, fmt.Sprint(w.Ticket)) {
		t.Error("a way to revoke")
	}
	if err := x.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := x.wait(t); code != 0 || strings.Count(x.err.String(), "\n") != 1 {
		t.Errorf("exit code %d after a TERM, and it said %q", code, x.err.String())
	}
}

func TestPagesStayOnThisMachine(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, listen := range []string{":0", "0.0.0.0:0", "192.0.2.1:0", "here"} {
		code, _, said := p.leasehold("ui", "--listen", listen)
		if code != codeUsage || !strings.Contains(said, "give an address") {
			t.Errorf("%s: %d %s", listen, code, said)
		}
	}
}
