// Package java builds programs in Java by Maven and drives them: one process for
// each client of a Java library, which does what lines on its standard input say.
// Those of one library have a package of their own beside this one, with the
// program in its folder java. What every program has in common is in the folder
// src: the reading of lines, and threads that carry them out.
//
// Locks in Java belong to a thread. A [Thread] here is one there: it carries out
// one command after the other, so what a thread holds only that thread can unlock,
// and two threads of one process exclude each other.
//
// What it promises: the library that runs is the release that was asked for, by
// the manifest of the jar its classes came from; a process ends with the one that
// started it. What it needs: Maven and a JDK of Java 17 or later, and Maven Central
// for the first build of a release. Where one of them is missing [Build] says so
// with [ErrMissing].
package java
