package disk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// localTypes are the file systems known to be local, by the magic number that
// statfs(2) gives. A list of those known to be remote would always lack one.
// overlayfs is as local as its upper layer, which the kernel requires to be.
var localTypes = map[uint32]string{
	0xef53:     "ext2, ext3, ext4",
	0x58465342: "xfs",
	0x9123683e: "btrfs",
	0x01021994: "tmpfs",
	0x858458f6: "ramfs",
	0x794c7630: "overlayfs",
	0x2fc12fc1: "zfs",
	0xf2f52010: "f2fs",
	0xca451a4e: "bcachefs",
	0x3153464a: "jfs",
	0x52654973: "reiserfs",
	0x24051905: "ubifs",
}

// remoteTypes only make the error friendlier.
var remoteTypes = map[uint32]string{
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB",
	0x517b:     "SMB",
	0x65735546: "FUSE",
	0x01021997: "9p",
	0x5346414f: "AFS",
	0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
}

// Local refuses a file system that may be shared with another machine.
func (d Dir) Local(path string) error {
	var st unix.Statfs_t
	if err := Again(func() error { return unix.Fstatfs(d.fd, &st) }); err != nil {
		return err
	}
	return checkType(uint32(st.Type), path)
}

func checkType(magic uint32, path string) error {
	if localTypes[magic] != "" {
		return nil
	}
	what := remoteTypes[magic]
	if what == "" {
		what = fmt.Sprintf("type %#x", magic)
	}
	return fmt.Errorf("%s is on a file system (%s) not known to be local, so locks may exclude nobody: use a local directory or a server, or force it if one kernel runs all its processes", path, what)
}

func IsFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func IsReadOnly(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
}

func isReadOnly(st *unix.Statfs_t) bool { return st.Flags&unix.ST_RDONLY != 0 }
