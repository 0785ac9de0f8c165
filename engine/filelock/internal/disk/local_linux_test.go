package disk

import (
	"strings"
	"testing"
)

func TestAFileSystemNotKnownToBeLocal(t *testing.T) {
	for magic, name := range remoteTypes {
		err := checkType(magic, "/somewhere")
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := checkType(0xdeadbeef, "/somewhere"); err == nil {
		t.Error("an unknown type is accepted")
	}
	// procfs is one, and there on every Linux.
	d, err := openDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Local("/proc"); err == nil {
		t.Error("/proc is taken for a local file system")
	}
}
