package queuestore

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The page for implementers and the package documentation name each method of a Store, and
// no other in the table.
func TestThePageNamesTheMethodsOfAStore(t *testing.T) {
	page, err := os.ReadFile("../../docs/writing-an-engine.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| method | what it does |")
	table, _, _ = strings.Cut(table, "\n\n")
	methods := reflect.TypeFor[Store]()
	for i := range methods.NumMethod() {
		name := "`" + methods.Method(i).Name + "`"
		if !strings.Contains(table, name) {
			t.Errorf("the table has no %s", name)
		}
		table = strings.ReplaceAll(table, name, "")
	}
	if _, more, found := strings.Cut(table, "`"); found {
		t.Errorf("the table has what no Store has: `%s", more)
	}
}
