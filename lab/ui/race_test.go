//go:build race

package main

// raced says that the race detector is in this program, which makes it several times slower.
const raced = true
