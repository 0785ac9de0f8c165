package queue_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leasehold/engine"
	"leasehold/engine/queue"
)

func full() queue.Queue {
	return queue.Queue{Last: 300, Limit: 5, Places: []queue.Place{
		{ID: engine.ID{1, 2}, Ticket: 7, Client: "me", Owner: `{"host":"h"}`, Permits: 2, Deadline: time.Hour, Held: true, Notified: true},
		{ID: engine.ID{15: 9}, Ticket: 200, Permits: 3, Deadline: -1, Held: true, Detached: true, Revoked: true},
		{ID: engine.ID{3}, Ticket: 300, Client: "other", Permits: 1, Deadline: 1<<63 - 1},
	}}
}

func encode(t *testing.T, l *queue.Queue) []byte {
	t.Helper()
	b, err := l.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAStoredQueueIsReadDifferently(t *testing.T) {
	for _, want := range []queue.Queue{{}, {Last: engine.MaxTicket, Limit: engine.Max}, full()} {
		var got queue.Queue
		b := encode(t, &want)
		if err := got.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		clear(b) // nothing of it is kept
		if len(got.Places) == 0 {
			got.Places = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
	}
	// What any sequence of operations leaves can be stored.
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }, t.Fatalf)
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			d.step()
		}
		b, _ := d.queue.AppendBinary([]byte("before"))
		var got queue.Queue
		if err := got.UnmarshalBinary(b[len("before"):]); err != nil {
			t.Fatalf("%v: %+v", err, d.queue)
		}
		if len(got.Places) != len(d.queue.Places) || len(got.Places) > 0 && !reflect.DeepEqual(got, d.queue) {
			t.Fatalf("\n got %+v\nwant %+v", got, d.queue)
		}
	})
}

// Whoever adds a field to a place has to store it.
func TestAFieldOfAPlaceIsNotStored(t *testing.T) {
	for i := range reflect.TypeFor[queue.Place]().NumField() {
		want := queue.Queue{Last: 9, Limit: 9, Places: []queue.Place{{Ticket: 1, Permits: 1}}}
		switch f := reflect.ValueOf(&want.Places[0]).Elem().Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("text")
		case reflect.Array:
			f.Index(15).SetUint(7)
		case reflect.Uint64:
			f.SetUint(7)
		default:
			f.SetInt(7)
		}
		var got queue.Queue
		if err := got.UnmarshalBinary(encode(t, &want)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", reflect.TypeFor[queue.Place]().Field(i).Name, err, got, want)
		}
	}
}

func TestTheRoomOfAStoredQueueIsNotUsedAgain(t *testing.T) {
	want := full()
	b := encode(t, &want)
	got := queue.Queue{Places: make([]queue.Place, 0, 3)}
	room := got.Places[:3]
	if err := got.UnmarshalBinary(b); err != nil || &got.Places[0] != &room[0] {
		t.Fatalf("%v: a new slice was made", err)
	}
}

func TestWhatIsNoQueueIsReadAsOne(t *testing.T) {
	whole := encode(t, func() *queue.Queue { l := full(); return &l }())
	bad := map[string][]byte{
		"nothing":         {},
		"another version": append([]byte{2}, whole[1:]...),
		"more behind it":  append(whole[:len(whole):len(whole)], 0),
		"many claims":     {1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1},
		"endless number":  {1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
	for n := range whole {
		bad["cut off"] = whole[:n]
		var l queue.Queue
		if err := l.UnmarshalBinary(whole[:n]); !errors.Is(err, queue.ErrEncoding) {
			t.Fatalf("cut off after %d bytes: %v", n, err)
		}
	}
	for what, change := range map[string]func(*queue.Queue){
		"no permits":                  func(l *queue.Queue) { l.Places[0].Permits = 0 },
		"more permits than the limit": func(l *queue.Queue) { l.Places[2].Permits = 6 },
		"tickets that fall":           func(l *queue.Queue) { l.Places[1].Ticket = 7 },
		"a ticket nobody gave":        func(l *queue.Queue) { l.Last = 299 },
		"a ticket beyond the bound":   func(l *queue.Queue) { l.Last = engine.MaxTicket + 1 },
		"more held than the limit":    func(l *queue.Queue) { l.Places[2].Held = true },
		"a holder behind one that waits": func(l *queue.Queue) {
			l.Limit, l.Places[0].Held = 10, false
		},
	} {
		l := full()
		change(&l)
		bad[what] = encode(t, &l)
	}
	for what, b := range bad {
		l := full()
		if err := l.UnmarshalBinary(b); !errors.Is(err, queue.ErrEncoding) || !reflect.DeepEqual(l, queue.Queue{}) {
			t.Errorf("%s: %v, %+v", what, err, l)
		}
	}
}

// Whatever is read can be worked with.
func FuzzStoredQueue(f *testing.F) {
	l := full()
	b, _ := l.AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var l queue.Queue
		if l.UnmarshalBinary(b) != nil {
			return
		}
		l.Depart(0, lockName, func(string) bool { return false })
		sum := int64(0)
		for _, c := range l.View(0, lockName).Claims {
			if sum += int64(c.Permits); c.State == engine.Held && sum > int64(l.Limit) {
				t.Fatalf("%d of %d are held", sum, l.Limit)
			}
		}
	})
}
