package torture

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// Cut loses all packets of one client, and Packets has all of its ways for one and for all.
func TestWhatIsCutOff(t *testing.T) {
	w := newWitness(bufio.NewWriter(&bytes.Buffer{}), func(err error) { t.Error(err) })
	for i := range 3 {
		name := fmt.Sprintf("c%d", i)
		w.clients[name] = &client{w: w, name: name}
	}
	s := &Strike{Rand: rand.New(rand.NewPCG(1, 1)), w: w}
	cut, others := map[string]int{}, map[string]int{}
	for range 200 {
		hit, f := Cut().(*packets).choose(s)
		cut[fmt.Sprintf("%d clients: %s", len(hit), f.what)]++
		hit, f = Packets().(*packets).choose(s)
		others[fmt.Sprintf("%d clients: %s", len(hit), f.what)]++
	}
	if len(cut) != 1 || cut["1 clients: "+losses()[0].what] == 0 || losses()[0].share != everyPacket || len(losses()[0].ways) != 2 {
		t.Errorf("%v", cut)
	}
	if len(others) != 2*len(losses()) {
		t.Errorf("%v", others)
	}
	clear(w.clients)
	if hit, _ := Cut().(*packets).choose(s); len(hit) > 0 {
		t.Errorf("%d clients, and none runs", len(hit))
	}
}
