package main

import "os"

// deserted: the next write will tell.
func deserted(*os.File) <-chan struct{} { return nil }
