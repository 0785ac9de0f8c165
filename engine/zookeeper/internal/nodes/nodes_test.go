package nodes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"leasehold/engine"
)

const uuid = "0d1b7c0a-41a5-4c5b-8f0e-6f8e1f0f6a11"

func TestNamesMeanWhatTheyMeanToCurator(t *testing.T) {
	nodes, err := Plain("client")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		layout         Layout
		name           string
		permits, limit int32
		seq            int64
	}{
		{Curator(), "_c_" + uuid + "-lock-0000000007", engine.Max, engine.Max, 7},
		{Curator(), "_c_0d1b7c0a41a54c5b8f0e6f8e1f0f6a11-lock-0000000007", engine.Max, engine.Max, 7}, // zk.Lock
		{Curator(), "lock-0000000007", engine.Max, engine.Max, 7},
		{Curator(), "_c_" + uuid + "-read-lock-2147483647", 1, engine.Max, 1<<31 - 1},
		{Curator(), "_c_" + uuid + "-2-of-5-lock-0000000000", 2, 5, 0},
		{Curator(), "_c_" + uuid + "-6-of-5-lock-0000000001", engine.Max, engine.Max, 1},  // not ours
		{Curator(), "_c_" + uuid + "-02-of-5-lock-0000000001", engine.Max, engine.Max, 1}, // not ours
		{ReadWrite(), "_c_" + uuid + "-__READ__0000000003", 1, engine.Max, 3},
		{ReadWrite(), "_c_" + uuid + "-__WRIT__0000000003", engine.Max, engine.Max, 3},
		{nodes, "client0000000012", engine.Max, engine.Max, 12},
	} {
		n, err := c.layout.Parse(c.name)
		if want := (Node{c.name, c.seq, c.permits, c.limit}); err != nil || n != want {
			t.Errorf("%s is %+v, %v; want %+v", c.name, n, err, want)
		}
	}
	for name, l := range map[string]Layout{
		"_c_" + uuid + "-__WRIT__0000000003": Curator(),
		"_c_" + uuid + "-lock-0000000003":    ReadWrite(),
		"_c_" + uuid + "-lock--2147483648":   Curator(), // after the last number
		"_c_" + uuid + "-lock-000000003":     Curator(),
		"lock-0000000003":                    nodes,
		"client00000000x3":                   nodes,
		"config":                             Curator(),
	} {
		if n, err := l.Parse(name); !errors.Is(err, ErrForeign) {
			t.Errorf("%s is %+v, %v", name, n, err)
		}
	}
}

func TestWhatWeNameIsReadBack(t *testing.T) {
	nodes, err := Plain("n-")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		l              Layout
		permits, limit int32
	}{
		{Curator(), engine.Max, engine.Max}, {Curator(), 1, engine.Max}, {Curator(), 3, 10}, {Curator(), 7, 7}, {Curator(), engine.Max - 1, engine.Max},
		{ReadWrite(), engine.Max, engine.Max}, {ReadWrite(), 1, engine.Max}, {nodes, engine.Max, engine.Max},
	} {
		name := c.l.Prefix(uuid, c.permits, c.limit) + "0000000042"
		if n, err := c.l.Parse(name); err != nil || n.Permits != c.permits || n.Limit != c.limit || n.Seq != 42 {
			t.Errorf("%s is %+v, %v", name, n, err)
		}
		if Has(name, uuid) != c.l.Protected() {
			t.Errorf("whether %s has its uuid", name)
		}
	}
}

func TestTwoNamesAreNeverOneNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[%/.a-fA-F0-9\x{0}-\x{a0}\x{10ffff}\x{e000}]{0,12}`)).Draw(t, "name")
		node := Encode(name)
		if back, ok := Decode(node); !ok || back != name {
			t.Fatalf("%q became %q and %q, %v", name, node, back, ok)
		}
		if strings.ContainsAny(node, "/\x00") || node == "." || node == ".." || node == "zookeeper" {
			t.Fatalf("%q became %q", name, node)
		}
	})
	for _, node := range []string{"%", "%4", "%41", "%2f", "%zz", "a%", ".", "zookeeper", "%+1", "% 1"} {
		if name, ok := Decode(node); ok {
			t.Errorf("%q is the node of %q", node, name)
		}
	}
}

func TestHeldIsTheRule(t *testing.T) {
	x, r := Node{Permits: engine.Max, Limit: engine.Max}, Node{Permits: 1, Limit: engine.Max}
	n := func(permits, limit int32) Node { return Node{Permits: permits, Limit: limit} }
	for _, c := range []struct {
		line Queue
		want int
	}{
		{nil, 0}, {Queue{x}, 1}, {Queue{x, x}, 1}, {Queue{x, r}, 1}, {Queue{r, r, x, r}, 2}, {Queue{r, r}, 2},
		{Queue{n(1, 3), n(1, 3), n(1, 3), n(1, 3)}, 3}, {Queue{n(2, 3), n(2, 3), n(1, 3)}, 1}, {Queue{n(3, 3), n(1, 3)}, 1},
		{Queue{n(engine.Max-1, engine.Max), r, r}, 2},
		{Queue{n(1, 3), n(1, 4), n(1, 3)}, 1}, // the second is about to be refused
	} {
		if got := c.line.Holders(); got != c.want {
			t.Errorf("%v: %d hold, want %d", c.line, got, c.want)
		}
		for i := range c.line {
			if c.line.Contended(i) != (i < c.want && c.want < len(c.line)) {
				t.Errorf("%v: contended %d", c.line, i)
			}
		}
	}
}

func TestWhileItsBlockersStandANodeDoesNotHold(t *testing.T) {
	n := func(permits, limit int32) Node { return Node{Permits: permits, Limit: limit} }
	x, r := n(engine.Max, engine.Max), n(1, engine.Max)
	for _, c := range []struct {
		line  Queue // the last of which is asked about
		first int   // of its blockers
		count int
	}{
		{Queue{x}, 0, 0}, {Queue{r, r}, 0, 0}, {Queue{n(1, 3), n(2, 3)}, 0, 0},
		{Queue{x, x}, 0, 1}, {Queue{x, x, x}, 1, 1}, {Queue{x, r, x}, 1, 1},
		{Queue{x, r}, 0, 1}, {Queue{x, r, r, r}, 0, 1}, {Queue{r, x, r, r}, 1, 1}, {Queue{x, x, r}, 1, 1},
		{Queue{n(1, 3), n(3, 3), n(1, 3), n(1, 3)}, 1, 1},
		{Queue{n(1, 2), n(1, 2), n(1, 2)}, 0, 2}, {Queue{n(1, 2), n(1, 2), n(1, 2), n(1, 2)}, 1, 2},
		{Queue{n(1, 4), n(2, 4), n(1, 4), n(2, 4)}, 1, 2}, {Queue{n(2, 3), n(2, 3), n(1, 3)}, 0, 2},
		{Queue{n(engine.Max-1, engine.Max), r, r}, 0, 2},
		{Queue{n(1, 3), n(1, 4)}, 0, 1}, {Queue{n(1, 3), n(1, 4), n(1, 3)}, 1, 1}, {Queue{n(1, 4), n(1, 3), n(1, 3)}, 0, 1},
	} {
		for i := range c.line {
			c.line[i].Name, c.line[i].Seq = fmt.Sprint("n", i), int64(i)
		}
		last := len(c.line) - 1
		got := c.line.Blockers(last)
		if want := c.line[c.first : c.first+c.count]; !slices.Equal(got, want) {
			t.Errorf("%v: the last is blocked by %v, want %v", c.line, got, want)
		}
		if alone := append(slices.Clone(got), c.line[last]); alone.Held(len(alone)-1) != c.line.Held(last) {
			t.Errorf("%v: void: with %v alone the last holds: %v", c.line, got, !c.line.Held(last))
		}
		for gone := range got {
			left := append(slices.Delete(slices.Clone(got), gone, gone+1), c.line[last])
			if !left.Held(len(left) - 1) {
				t.Errorf("%v: the last is blocked by %v, and without %v too", c.line, got, got[gone])
			}
		}
	}
	under := Queue{{Name: "w", Seq: 7, Permits: engine.Max, Limit: engine.Max}, {Name: "r", Seq: 7, Permits: 1, Limit: engine.Max}}
	if got := under.Blockers(1); got != nil {
		t.Errorf("who reads under its own write is blocked by %v", got)
	}
}

// A world in which clients only learn what their watches tell: nobody who has room
// may be left unwoken, whatever order things happen in.
type world struct {
	t       *rapid.T
	line    Queue
	next    int64
	watches map[string]string // by node: what it watches; absent: it looks, or knows that it holds
	knows   map[string]bool   // that it holds
	queue   []string          // who has to look again
	lines   int
}

// changed: a node was written to, or has gone.
func (w *world) changed(node string, gone bool) {
	for who, what := range w.watches {
		if what == node || what == "" && gone {
			delete(w.watches, who)
			w.queue = append(w.queue, who)
		}
	}
}

// look is what a client does: list, and then hold or watch.
func (w *world) look(name string) {
	i := w.line.Find(name)
	if i < 0 {
		return
	}
	w.lines++
	if !w.line.Held(i) {
		w.watches[name] = w.line.WaitsFor(i)
		return
	}
	if !w.knows[name] && w.line.Wakes(i) {
		w.changed(name, false)
	}
	w.knows[name] = true
}

func (w *world) leave(i int) {
	name := w.line[i].Name
	w.line = slices.Delete(slices.Clone(w.line), i, i+1)
	delete(w.watches, name)
	w.changed(name, true)
}

func (w *world) promote() {
	for len(w.queue) > 0 {
		i := rapid.IntRange(0, len(w.queue)-1).Draw(w.t, "who looks")
		name := w.queue[i]
		w.queue = slices.Delete(w.queue, i, i+1)
		w.look(name)
	}
	for i, n := range w.line {
		if _, waits := w.watches[n.Name]; waits == w.line.Held(i) {
			w.t.Fatalf("%v: %s watches %q, held %v", w.line, n.Name, w.watches[n.Name], w.line.Held(i))
		}
	}
}

func TestNobodyIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, watches: map[string]string{}, knows: map[string]bool{}}
		limit := rapid.SampledFrom([]int32{engine.Max, engine.Max, 3, 5}).Draw(t, "limit")
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				permits := rapid.SampledFrom([]int32{1, 1, 2, 3, limit - 1, limit}).Draw(t, "units")
				w.next++
				n := Node{Name: fmt.Sprintf("n%d", w.next), Seq: w.next, Permits: permits, Limit: limit}
				w.line = append(slices.Clone(w.line), n)
				if rapid.Bool().Draw(t, "looks later") {
					w.queue = append(w.queue, n.Name)
				} else {
					w.look(n.Name)
				}
			},
			"leave": func(t *rapid.T) {
				if len(w.line) > 0 {
					w.leave(rapid.IntRange(0, len(w.line)-1).Draw(t, "who"))
				}
			},
			"settle": func(t *rapid.T) { w.promote() },
		})
		w.promote()
	})
}

// What a hand-over wakes grows only with those who become held.
func TestAHandOverWakesOneOfMany(t *testing.T) {
	for _, limit := range []int32{engine.Max, 4} {
		for _, waiting := range []int{8, 500} {
			permits := limit
			if limit == 4 {
				permits = 1
			}
			w := &world{watches: map[string]string{}, knows: map[string]bool{}}
			for i := range int(limit/permits) + waiting {
				n := Node{Name: fmt.Sprintf("n%d", i), Seq: int64(i), Permits: permits, Limit: limit}
				w.line = append(w.line, n)
				w.look(n.Name)
			}
			w.lines = 0
			w.leave(0)
			for len(w.queue) > 0 {
				name := w.queue[0]
				w.queue = w.queue[1:]
				w.look(name)
			}
			want := 1
			if permits < limit {
				want = 2 // who holds now, and who is the first to wait
			}
			if w.lines != want {
				t.Errorf("limit %d, %d waiting: %d looked, want %d", limit, waiting, w.lines, want)
			}
		}
	}
}

func TestTheNodeOfASessionIsNoName(t *testing.T) {
	for _, id := range []int64{0, 1, -1, 0x100_0000_0000_0001} {
		if name, ok := Decode(Session(id)); ok {
			t.Errorf("%q is taken for the name %q", Session(id), name)
		}
	}
}

// What faults planted here had gone unnoticed by the tests above.
func TestTheEdgesOfNamesAndQueues(t *testing.T) {
	for _, r := range []string{"\x7f", "\u009f", "\ufff0"} {
		if Encode(r) == r {
			t.Errorf("ZooKeeper takes no %q in a name", r)
		}
	}
	if _, err := Plain(strings.Repeat("p", 128)); err != nil {
		t.Error(err)
	}
	if _, err := Plain(strings.Repeat("p", 129)); err == nil {
		t.Error("a prefix of 129 bytes")
	}
	if n, err := Curator().Parse("lock-lock-0000000007"); err != nil || n.Seq != 7 {
		t.Errorf("the digits follow the last mark: %+v, %v", n, err)
	}
	if n, err := Curator().Parse("_c_" + uuid + "-0-of-5-lock-0000000001"); err != nil || n.Permits != engine.Max {
		t.Errorf("nobody makes no permits: %+v, %v", n, err)
	}
	if _, err := Curator().Sort([]string{"first", "second"}); err == nil || !strings.Contains(err.Error(), "first") {
		t.Errorf("two foreign nodes: %v", err)
	}
	line, err := ReadWrite().Sort([]string{"_c_" + uuid + "-__READ__0000000001", "_c_" + uuid + "-__WRIT__0000000001", "_c_" + uuid + "-__READ__0000000002"})
	if err != nil || line[0].Permits != engine.Max {
		t.Fatalf("who reads under its own write comes after it: %+v, %v", line, err)
	}
	if got := line.WaitsFor(2); got != line[0].Name {
		t.Errorf("a reader behind the first writer waits for %q", got)
	}
	for permits, wakes := range map[[2]int32]bool{{1, 2}: true, {5, 2}: false, {1, 5}: false} {
		l := Queue{{Permits: permits[0], Limit: 5}, {Permits: permits[1], Limit: 5}}
		if l.Wakes(0) != wakes {
			t.Errorf("%d of 5 before %d of 5 wakes it: %v", permits[0], permits[1], !wakes)
		}
	}
}
