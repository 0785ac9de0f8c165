package main

import (
	"encoding/binary"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timer that counts the time a machine is suspended, which Go's
// timers do not: a laptop that slept through the end of a lease must not run
// the command for another minute after it woke up.
type alarm struct {
	file *os.File // a timerfd
	fire chan struct{}
	set  time.Duration
}

func newAlarm() (*alarm, error) {
	a := &alarm{fire: make(chan struct{}, 1)}
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a.file = os.NewFile(uintptr(fd), "timerfd")
	go func() {
		var count [8]byte
		for {
			if _, err := a.file.Read(count[:]); err != nil || binary.NativeEndian.Uint64(count[:]) == 0 {
				return
			}
			select {
			case a.fire <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

func (a *alarm) c() <-chan struct{} { return a.fire }

// at sets the moment, by package boottime. One that has passed fires at once.
func (a *alarm) at(t time.Duration) {
	if t == a.set {
		return
	}
	a.set = t
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, t.Nanoseconds()))}
	var failed error
	raw, err := a.file.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil) })
	}
	if err := errors.Join(err, failed); err != nil {
		panic("leasehold: setting a timer: " + err.Error())
	}
}

func (a *alarm) stop() { a.file.Close() }
