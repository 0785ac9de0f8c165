//go:build unix

// Package firstfiles ends a program, with a sentence, that may open so few files that
// Go's runtime would end it with a trace.
//
// It does so in init, against the habits of this tree, because the trace comes from an
// init: protobuf's, below the client of etcd, opens the program itself to hash it, and
// the first file that package os opens needs two descriptors more, for the poller,
// whose absence is fatal. This package imports nothing but syscall, and packages are
// initialised in the order of their paths as soon as what they import is: that is
// before os, whose path is greater, and so before whoever imports os.
package firstfiles

import "syscall"

// least is what the inits of other packages need: the program, the poller's two.
const least = 3

const sentence = "leasehold: too few files may be open here: raise the limit (ulimit -n)\n"

func init() {
	var open [least]int
	had := 0
	for ; had < least; had++ {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err == syscall.EMFILE || err == syscall.ENFILE {
			syscall.Write(2, []byte(sentence))
			syscall.Exit(69) // EX_UNAVAILABLE, as package main says it
		}
		if err != nil {
			break // something else will be told of that
		}
		open[had] = fd
	}
	for _, fd := range open[:had] {
		syscall.Close(fd)
	}
}
