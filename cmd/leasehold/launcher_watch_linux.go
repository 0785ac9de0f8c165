package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"leasehold/internal/boottime"
)

// watch waits for the keeper's end and returns the exit code.
func (f *starter) watch(wake *alarm) int {
	messages := f.messages
	for {
		select {
		case m, open := <-messages:
			if !open {
				messages = nil // its end is about to be reported
				break
			}
			if f.take(m); m.Running {
				f.ran = true
				wake.at(f.page.get())
			}
		case <-wake.c():
			if again, over := f.page.look(boottime.Now()); over {
				f.overdue = true
				f.signalGroup(syscall.SIGKILL)
				f.killLeft()
				wake.at(boottime.Now() + 10*time.Millisecond) // and again, until the keeper's end is reported
			} else if again != 0 {
				wake.at(again)
			}
		case sig := <-f.signals:
			if sig == syscall.SIGTSTP {
				// From a terminal that is still this job's, or from somebody
				// who means the whole.
				f.signalGroup(syscall.SIGTSTP)
				break
			}
			f.asked = f.asked || slices.Contains(asking, sig)
			f.pipe.send(message{Signal: sig.(syscall.Signal)}, nil)
		case <-f.continued:
			f.resume()
		case ws := <-f.states:
			if ws.Stopped() {
				f.suspend(ws.StopSignal())
				break
			}
			return f.finish(ws)
		}
	}
}

// take handles what the keeper says.
func (f *starter) take(m delivery) {
	switch {
	case m.Life:
		f.life = m.file
	case m.Stopped != 0:
		f.suspend(m.Stopped)
	case m.Ended != nil:
		f.ended = m.Ended
	}
}

// signalGroup signals the command and the keeper. The keeper pins the number
// of its group; between its death and the report of it the number would have
// to be given out anew to be wrong.
func (f *starter) signalGroup(sig syscall.Signal) { _ = syscall.Kill(-f.keeper, sig) }

// killLeft kills all that is left of this term. What is being started meanwhile is found the next time.
func (f *starter) killLeft() {
	for _, p := range below(os.Getpid(), f.strangers...) {
		p.kill()
	}
}

// bury kills what a keeper left behind until none of it lives: what may not be killed (another
// user's) is waited for.
func (f *starter) bury() {
	for pause := time.Millisecond; !f.alone(); pause = min(2*pause, 200*time.Millisecond) {
		f.killLeft()
		time.Sleep(pause)
	}
}

// alone reports whether nothing is left below this process but strangers. It reaps who has ended.
func (f *starter) alone() bool {
	for {
		// Before the reaping: who is being reaped may have left children that were not seen here.
		left := len(f.strangers) == 0 || len(below(os.Getpid(), f.strangers...)) > 0 || !f.onlyStrangers()
		switch pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); {
		case err == syscall.ECHILD:
			return true
		case pid == 0:
			return !left
		}
	}
}

// onlyStrangers reports whether every child of this process is a stranger. It goes by what the
// kernel shows to a parent: with hidepid /proc shows no processes of another user (sudo).
func (f *starter) onlyStrangers() bool {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		return false // it is not known, as on a kernel without these lists
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH) { // a thread that has ended has none
			return false
		}
		for _, child := range strings.Fields(string(text)) {
			if !slices.ContainsFunc(f.strangers, func(p proc) bool { return strconv.Itoa(p.pid) == child }) {
				return false
			}
		}
	}
	return true
}

// suspend follows a command that was stopped: the job must stop too, or the
// shell would wait on.
func (f *starter) suspend(sig syscall.Signal) {
	if f.tty == nil {
		return // no shell to go back to: whoever stopped it will continue it
	}
	wants := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	foreground := f.tty.foreground()
	switch {
	case wants && f.tty.mine():
		// It asks for the terminal, which is ours to give.
		f.tty.give(f.keeper)
		f.handedOff = true
		f.signalGroup(syscall.SIGCONT)
		return
	case wants && foreground == f.keeper:
		f.signalGroup(syscall.SIGCONT) // given in the meantime
		return
	case foreground == f.keeper:
		f.tty.give(syscall.Getpgrp())
	case sig == syscall.SIGSTOP:
		return // not from a terminal
	}
	if sig == syscall.SIGSTOP {
		sig = syscall.SIGTSTP
	}
	select {
	case <-f.continued: // of before
	default:
	}
	if stopJob(sig, func() bool { return wants && f.tty.mine() }); sig == syscall.SIGTSTP {
		signal.Notify(f.signals, sig) // the others are to be ignored anyway
	}
	select {
	case <-f.continued:
	case <-time.After(100 * time.Millisecond):
		if wants && !f.tty.mine() {
			// The kernel did not let us stop, and continuing the command would
			// only have it ask again, for ever.
			f.say("%s: the command waits for the terminal, which another job has", quoteName(f.order.Name))
			return
		}
	}
	f.resume()
}

// resume continues the command after this process was continued, in the
// foreground if that is where the shell put this job.
func (f *starter) resume() {
	if f.tty.mine() && (f.tty.interactive || f.handedOff) {
		f.tty.give(f.keeper)
	}
	f.signalGroup(syscall.SIGCONT)
}

// finish takes the terminal back and says how it went, after the keeper's end.
func (f *starter) finish(ws syscall.WaitStatus) int {
	for m := range f.messages { // closed when the last has been read
		f.ran = f.ran || m.Running
		if m.Stopped == 0 {
			f.take(m)
		}
	}
	if f.ended == nil {
		return f.orphaned(ws)
	}
	had := f.tty.foreground() == f.keeper
	f.giveBack()
	if sig := f.ended.Signal; had && (sig == syscall.SIGINT || sig == syscall.SIGQUIT) {
		// A script that runs us in its own group would have got it as well,
		// had the terminal not been the command's, and should end too. So should a
		// candidate, even if it had lost before.
		f.asked = true
		signal.Ignore(sig)
		_ = syscall.Kill(0, sig)
	}
	return f.ended.Code
}

// giveBack takes the terminal back for the job, if the command had it.
func (f *starter) giveBack() {
	if f.tty != nil && f.tty.foreground() == f.keeper {
		f.tty.give(syscall.Getpgrp())
	}
}

// orphaned ends what a keeper left behind that did not say goodbye.
func (f *starter) orphaned(ws syscall.WaitStatus) int {
	signal.Reset(asking...) // whoever is tired of waiting for it may end us
	f.bury()
	f.giveBack()
	name := quoteName(f.order.Name)
	switch {
	case f.overdue:
		f.say("%s was lost: the process that kept it did not renew it in time; the command was killed", name)
		return f.order.Lost
	case f.ran:
		f.say("%s was lost: the process that kept it has ended (%s); the command was killed", name, howEnded(ws))
		return f.order.Lost
	}
	f.say("%s: the process that waited for it has ended (%s)", name, howEnded(ws))
	return codeUnavailable
}

func howEnded(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return ws.Signal().String()
	}
	return fmt.Sprintf("exit code %d", ws.ExitStatus())
}
