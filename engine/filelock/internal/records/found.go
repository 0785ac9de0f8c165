package records

import (
	"strconv"

	"leasehold/engine/filelock/internal/disk"
)

// found makes the record: a directory with a file of its final first size in
// it, so that later stores need no room on the disk, renamed into place. The
// rename is the decision: it takes the place of nothing or of an empty
// directory, so that of two founders one wins and the other uses the winner's.
func (c *Records) found(r *record) error {
	c.mu.Lock()
	c.made++
	tmp := c.owner + "." + strconv.FormatUint(c.made, 10)
	c.mu.Unlock()
	if err := c.fresh.Mkdir(tmp); err != nil {
		return err
	}
	c.step("made")
	err := fill(c.fresh, tmp)
	if err == nil {
		c.step("filled")
		if err = c.fresh.MoveDir(tmp, r.in, r.file); err == nil {
			c.step("founded")
			return nil
		}
	}
	if d, err := c.fresh.Sub(tmp); err == nil {
		d.Remove("1")
		d.Close()
	}
	c.fresh.Rmdir(tmp)
	if disk.IsInUse(err) {
		return nil
	}
	return err
}

func fill(in disk.Dir, name string) error {
	d, err := in.Sub(name)
	if err != nil {
		return err
	}
	defer d.Close()
	f, err := d.Create("1")
	if err != nil {
		return err
	}
	defer f.Close()
	return f.WriteAt(make([]byte, firstSize), 0)
}
