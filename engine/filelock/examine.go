package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"leasehold/engine"
	"leasehold/engine/filelock/internal/disk"
	"leasehold/engine/internal/findings"
)

const (
	// Below these a few thousand claims fill the file system.
	leastFree   = 16 << 20 // bytes
	leastInodes = 4096

	// leastFiles is how many files a process must be able to open for the engine, and for
	// something besides.
	leastFiles = 64
)

// Examine reports what is dangerous for locks in a directory, which [New] would be given
// with the same options. It makes and changes no file. It calls found from the goroutine
// of its caller, the worst finding first.
//
// Errors: a path that is no directory, or may not be read.
func Examine(ctx context.Context, dir string, o *Options, eo engine.ExamineOptions, found func(engine.Finding)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("filelock: %w", err)
	}
	x := findings.New(eo)
	at := path
	d, err := disk.Look(at)
	for errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
		at = filepath.Dir(at)
		d, err = disk.Look(at)
	}
	if err != nil {
		if disk.IsStranger(err) {
			return fmt.Errorf("filelock: %s is not a directory (a symbolic link to one does not count): give the real path", at)
		}
		return fmt.Errorf("filelock: %w", &fs.PathError{Op: "open", Path: at, Err: err})
	}
	defer d.Close()
	if at != path {
		x.Add(engine.Finding{
			Severity: engine.SeverityNote, What: "the directory is not there",
			Means: "No program has locked there yet, or somebody removed the directory. The rest of this report is about the folder above it.",
			Do:    "Check the path. The first lock makes the directory.",
		}, "%s", path)
	} else if err := d.Mine(path); err != nil {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "others can use the directory",
			Means: "Another user could delete or replace the files of a lock that is held. leasehold refuses the directory.",
			Do:    "Use a directory of your own with mode 0700.",
		}, "%v", err)
	}
	if err := d.Local(path); err != nil {
		f := engine.Finding{
			Severity: engine.SeverityProblem, What: "the file system is not known to be local",
			Means: "Two machines may use it at the same time, and their locks do not exclude each other.",
			Do:    "Use a directory on a local disk, or an engine with a server.",
		}
		if o != nil && o.Force {
			f.Severity = engine.SeverityWarning // by somebody who says that one kernel uses it
		}
		x.Add(f, "%v", err)
	}
	space(x, d, path)
	if n := disk.Limit(); n < leastFiles {
		x.Add(engine.Finding{
			Severity: engine.SeverityWarning, What: "this process may open few files",
			Means: "Each name in use needs an open file, and the engine some thirty besides. Locks fail when there are no more.",
			Do:    "Raise the limit with ulimit -n, for the programs that lock too.",
		}, "%d", n)
	}
	x.Report(found)
	return nil
}

// space examines what is left on the file system.
func space(x *findings.List, d disk.Dir, path string) {
	s, err := d.Space()
	if err != nil {
		x.Unread("the file system of "+path, err, "")
		return
	}
	if s.ReadOnly {
		x.Add(engine.Finding{
			Severity: engine.SeverityProblem, What: "the file system only reads",
			Means: "No lock can be taken there.",
			Do:    "Mount it for writing, or use another directory.",
		}, "%s", path)
	}
	full := engine.Finding{
		Severity: engine.SeverityWarning, What: "the file system is nearly full",
		Means: "Without room or inodes no new claim can be stored. Claims that are held stay.",
		Do:    "Remove files, or use another directory.",
	}
	if s.Free == 0 || s.Counts && s.Inodes == 0 {
		full.Severity = engine.SeverityProblem
	}
	if s.Free < leastFree {
		x.Add(full, "%s has %d bytes left", path, s.Free)
	}
	if s.Counts && s.Inodes < leastInodes {
		x.Add(full, "%s has %d inodes left", path, s.Inodes)
	}
}
