//go:build unix

// Package firstfiles ends a program with one sentence if it may open so few files that
// Go's runtime would end it with a trace.
//
// The package does so in init, against the habits of this tree, because the trace comes
// from another init. That of protobuf, below the client of etcd, opens the program itself
// to hash it. The first file that package os opens needs two more descriptors, for the
// poller, whose absence is fatal.
//
// This package imports only syscall. Go initialises packages in the order of their paths,
// each as soon as its imports are initialised. So this package comes before os, whose path
// is greater, and before every package that imports os.
package firstfiles

import "syscall"

// least is what the inits of other packages need: the program, the poller's two.
const least = 3

const sentence = "leasehold: too few files may be open: raise the limit (ulimit -n)\n"

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
