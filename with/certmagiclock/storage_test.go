package certmagiclock_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"

	"leasehold"
	"leasehold/engine"
	"leasehold/leaseholdtest"
	"leasehold/with/certmagiclock"
)

const lockName = "issue_cert_a.example.com"

func newStorage(t *testing.T, locks *leasehold.Client) *certmagiclock.Storage {
	t.Helper()
	s, err := certmagiclock.New(&certmagic.FileStorage{Path: t.TempDir()}, locks, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func lock(t *testing.T, s *certmagiclock.Storage, name string) {
	t.Helper()
	if err := s.Lock(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

func TestAfterALossTheFilesOfTheDomainAreLeftAlone(t *testing.T) {
	locks := leaseholdtest.New(t)
	s := newStorage(t, locks.Client)
	key := certmagic.StorageKeys.SiteCert("ca", "a.example.com")
	other := certmagic.StorageKeys.SiteCert("ca", "b.example.com")
	challenge := "acme/ca/challenge_tokens/a.example.com.json"
	validation := "zerossl/challenge_tokens/a.example.com.json"
	lock(t, s, lockName)
	for _, k := range []string{key, other, challenge, validation} {
		if err := s.Store(t.Context(), k, []byte("ours")); err != nil {
			t.Fatal(err)
		}
	}
	locks.Lose("certmagic:" + lockName)
	if err := s.Delete(t.Context(), certmagic.StorageKeys.CertsSitePrefix("ca", "a.example.com")); !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("Delete of the folder: %v", err)
	}
	for _, k := range []string{key, challenge, validation} {
		if err := s.Store(t.Context(), k, []byte("late")); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("Store %s: %v", k, err)
		}
		if err := s.Delete(t.Context(), k); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("Delete %s: %v", k, err)
		}
		if got, err := s.Load(t.Context(), k); string(got) != "ours" || err != nil {
			t.Errorf("%s is %q, %v", k, got, err)
		}
	}
	if err := s.Store(t.Context(), other, []byte("new")); err != nil {
		t.Errorf("Store of another domain: %v", err)
	}
	if err := s.Unlock(t.Context(), lockName); !errors.Is(err, leasehold.ErrLost) {
		t.Error(err)
	}
	lock(t, s, lockName)
	if err := s.Delete(t.Context(), key); err != nil {
		t.Errorf("Delete under the next lock: %v", err)
	}
	if _, err := s.Load(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := s.Unlock(t.Context(), lockName); err != nil {
		t.Error(err)
	}
}

// CertMagic names a domain in Unicode, and its files in ASCII.
func TestTheFilesOfAnInternationalDomainAreItsOwn(t *testing.T) {
	for name, file := range map[string]string{"bücher.example.com": "xn--bcher-kva.example.com", "*.example.org": "*.example.org"} {
		locks := leaseholdtest.New(t)
		s := newStorage(t, locks.Client)
		lock(t, s, "issue_cert_"+name)
		locks.Lose("certmagic:issue_cert_" + name)
		if err := s.Store(t.Context(), certmagic.StorageKeys.SiteCert("ca", file), nil); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("%s: %v", name, err)
		}
		if err := s.Unlock(t.Context(), "issue_cert_"+name); !errors.Is(err, leasehold.ErrLost) {
			t.Error(err)
		}
	}
}

// CertMagic names the files of an address as net.IP does, and the token of its TLS-ALPN challenge by
// the address in reverse: the name under which the ACME server asks for it.
func TestTheFilesOfAnAddressAreItsOwn(t *testing.T) {
	for _, c := range []struct{ name, file, reverse string }{
		{"203.0.113.7", "203.0.113.7", "7.113.0.203.in-addr.arpa"},
		{"::ffff:203.0.113.7", "203.0.113.7", "7.113.0.203.in-addr.arpa"},
		{"2001:0DB8::1a", "2001:db8::1a", "a.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa"},
	} {
		locks := leaseholdtest.New(t)
		s := newStorage(t, locks.Client)
		lock(t, s, "issue_cert_"+c.name)
		locks.Lose("certmagic:issue_cert_" + c.name)
		for _, key := range []string{
			certmagic.StorageKeys.SiteCert("ca", c.name),
			certmagic.StorageKeys.SiteCert("ca", c.file),
			"acme/ca/challenge_tokens/" + certmagic.StorageKeys.Safe(c.file) + ".json",
			"acme/ca/challenge_tokens/" + c.reverse + ".json",
		} {
			if err := s.Store(t.Context(), key, nil); !errors.Is(err, leasehold.ErrLost) {
				t.Errorf("Store %s: %v", key, err)
			}
			if err := s.Delete(t.Context(), key); !errors.Is(err, leasehold.ErrLost) {
				t.Errorf("Delete %s: %v", key, err)
			}
		}
		if err := s.Unlock(t.Context(), "issue_cert_"+c.name); !errors.Is(err, leasehold.ErrLost) {
			t.Error(err)
		}
	}
}

// One certificate can have locks of two names, such as the domain in Unicode and in ASCII.
func TestTheUnlockOfAnotherNameOfTheDomainDoesNotEndItsGuard(t *testing.T) {
	locks := leaseholdtest.New(t)
	s := newStorage(t, locks.Client)
	const first, second = "issue_cert_b\u00fccher.example", "issue_cert_xn--bcher-kva.example"
	lock(t, s, first)
	lock(t, s, second)
	locks.Lose("certmagic:" + first)
	key := certmagic.StorageKeys.SiteCert("ca", "xn--bcher-kva.example")
	refused := func(when string) {
		t.Helper()
		if err := s.Store(t.Context(), key, []byte("late")); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("Store %s: %v; want ErrLost", when, err)
		}
	}
	refused("while both are locked")
	if err := s.Unlock(t.Context(), second); err != nil {
		t.Error(err)
	}
	refused("after the Unlock of the other one")
	if err := s.Unlock(t.Context(), first); !errors.Is(err, leasehold.ErrLost) {
		t.Error(err)
	}
	if err := s.Store(t.Context(), key, []byte("ours")); err != nil {
		t.Errorf("Store when nothing is locked: %v", err)
	}
}

func TestRenewLockLeaseReportsALossOnceAndLocksAnew(t *testing.T) {
	locks := leaseholdtest.New(t)
	s := newStorage(t, locks.Client)
	lock(t, s, lockName)
	if err := s.RenewLockLease(t.Context(), lockName, 0); err != nil {
		t.Error(err)
	}
	locks.Lose("certmagic:" + lockName)
	if err := s.RenewLockLease(t.Context(), lockName, 0); !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("the first call after a loss: %v", err)
	}
	if err := s.RenewLockLease(t.Context(), lockName, 0); err != nil || !locks.Held("certmagic:"+lockName) {
		t.Errorf("the second call after a loss: %v", err)
	}
	if err := s.Unlock(t.Context(), lockName); err != nil {
		t.Error(err)
	}
	if err := s.RenewLockLease(t.Context(), lockName, 0); !errors.Is(err, certmagiclock.ErrNotHeld) {
		t.Errorf("after Unlock: %v", err)
	}
}

// A claim that is marked stands until its client gives it up, as every lost claim does on an engine
// whose claims end with a session.
func TestALossThatWasToldKeepsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "certmagic:" + lockName
		locks := leaseholdtest.New(t)
		s := newStorage(t, locks.Client)
		lock(t, s, lockName)
		queue, err := locks.Queue(t.Context(), name)
		if err != nil || len(queue.Claims) != 1 {
			t.Fatalf("the queue: %+v, %v", queue, err)
		}
		if err := locks.Other().Revoke(t.Context(), name, queue.Claims[0].Ticket); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !locks.Held(name) {
			t.Fatal("the claim went before its client gave it up: this shows nothing")
		}
		if err := s.RenewLockLease(t.Context(), lockName, 0); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("the first call after a loss: %v", err)
		}
		synctest.Wait()
		if locks.Held(name) {
			t.Error("the loss was told, and the lost claim still keeps others out")
		}
		if got, err := s.TryLock(t.Context(), lockName); got || err != nil {
			t.Errorf("TryLock before the Unlock of the one that lost: %v, %v", got, err)
		}
		if err := s.RenewLockLease(t.Context(), lockName, time.Second); err != nil {
			t.Errorf("the second call after a loss waits behind its own lost claim: %v", err)
		}
		if err := s.Unlock(t.Context(), lockName); err != nil {
			t.Error(err)
		}
	})
}

// CertMagic unlocks by name: with two holds of one name that would end the wrong one.
func TestTheNextOfTheProcessWaitsForTheOneThatLost(t *testing.T) {
	locks := leaseholdtest.New(t)
	s := newStorage(t, locks.Client)
	lock(t, s, lockName)
	locks.Lose("certmagic:" + lockName)
	if got, err := s.TryLock(t.Context(), lockName); got || err != nil {
		t.Errorf("TryLock: %v, %v", got, err)
	}
	over := make(chan error, 1)
	go func() { over <- s.Lock(t.Context(), lockName) }()
	// Another process does not wait for that.
	lease, err := locks.Other().Lock(t.Context(), "certmagic:"+lockName)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-over:
		t.Errorf("two of one process have the lock: %v", err)
	default:
	}
	if err := s.Unlock(t.Context(), lockName); !errors.Is(err, leasehold.ErrLost) {
		t.Error(err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	if err := s.Unlock(t.Context(), lockName); err != nil {
		t.Error(err)
	}
}

// authority is an issuer that calls back.
type authority func(ctx context.Context) error

func (a authority) Issue(ctx context.Context, _ *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	return &certmagic.IssuedCertificate{}, a(ctx)
}

func (authority) IssuerKey() string { return "ca" }

func TestAnOrderEndsWithTheLease(t *testing.T) {
	locks := leaseholdtest.New(t)
	s := newStorage(t, locks.Client)
	csr := &x509.CertificateRequest{DNSNames: []string{"a.example.com"}}
	issuer := s.Issuer(authority(func(ctx context.Context) error {
		if !locks.Held("certmagic:" + lockName) {
			return ctx.Err() // without a lock
		}
		locks.Lose("certmagic:" + lockName)
		if cause := context.Cause(ctx); !errors.Is(cause, leasehold.ErrLost) {
			t.Errorf("the context ended with %v", cause)
		}
		return nil // it does not look
	}))
	if _, err := issuer.Issue(t.Context(), csr); err != nil {
		t.Errorf("without a lock: %v", err)
	}
	lock(t, s, lockName)
	for range 2 { // during the order, and before it
		if cert, err := issuer.Issue(t.Context(), csr); cert != nil || !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("%v, %v", cert, err)
		}
	}
	if err := s.Unlock(t.Context(), lockName); !errors.Is(err, leasehold.ErrLost) {
		t.Error(err)
	}
}

func TestMisuseIsRefused(t *testing.T) {
	locks := leaseholdtest.New(t)
	s := newStorage(t, locks.Client)
	if err := s.Unlock(t.Context(), "n"); !errors.Is(err, certmagiclock.ErrNotHeld) {
		t.Errorf("Unlock without Lock: %v", err)
	}
	for _, name := range []string{"", strings.Repeat("n", 4096)} {
		if err := s.Lock(t.Context(), name); !errors.Is(err, engine.ErrName) {
			t.Errorf("%.5q: %v", name, err)
		}
		if got, err := s.TryLock(t.Context(), name); got || !errors.Is(err, engine.ErrName) {
			t.Errorf("%.5q: %v, %v", name, got, err)
		}
	}
	release := locks.Block("certmagic:n")
	if got, err := s.TryLock(t.Context(), "n"); got || err != nil {
		t.Errorf("TryLock of a held name: %v, %v", got, err)
	}
	release()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Lock(ended, "n"); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock with an ended context: %v", err)
	}
	lock(t, s, "n")
	if err := s.Unlock(ended, "n"); err != nil {
		t.Errorf("Unlock with an ended context: %v", err)
	}
	if err := s.Unlock(t.Context(), "n"); !errors.Is(err, certmagiclock.ErrNotHeld) {
		t.Errorf("Unlock twice: %v", err)
	}
	if _, err := certmagiclock.New(nil, locks.Client, nil); err == nil {
		t.Error("no storage was accepted")
	}
	for _, prefix := range []string{"a\x00", strings.Repeat("p", 257)} {
		if _, err := certmagiclock.New(&certmagic.FileStorage{}, locks.Client, &certmagiclock.Options{Prefix: prefix}); !errors.Is(err, engine.ErrName) {
			t.Errorf("%.5q: %v", prefix, err)
		}
	}
}

func TestRenewLockLeaseWaitsNoLongerThanItWasTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		s := newStorage(t, locks.Client)
		lock(t, s, lockName)
		locks.Lose("certmagic:" + lockName)
		release := locks.Block("certmagic:" + lockName)
		defer release()
		if err := s.RenewLockLease(t.Context(), lockName, time.Minute); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("the first call after a loss: %v", err)
		}
		began := time.Now()
		if err := s.RenewLockLease(t.Context(), lockName, time.Minute); !errors.Is(err, leasehold.ErrHeld) || time.Since(began) != time.Minute {
			t.Errorf("the second call: %v after %v; want ErrHeld after a minute", err, time.Since(began))
		}
		if err := s.Unlock(t.Context(), lockName); !errors.Is(err, leasehold.ErrLost) {
			t.Error(err)
		}
	})
}

func TestTheWaitOfTheClientDoesNotMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		s := newStorage(t, locks.With(leasehold.LockOptions{Wait: time.Second}))
		release := locks.Block("certmagic:" + lockName)
		locked := make(chan error, 1)
		go func() { locked <- s.Lock(t.Context(), lockName) }()
		time.Sleep(time.Hour)
		release()
		if err := <-locked; err != nil {
			t.Fatalf("Lock: %v; want it to wait as long as its context lasts", err)
		}
		if err := s.Unlock(t.Context(), lockName); err != nil {
			t.Error(err)
		}
	})
}

func TestUnlockWhileTheNameIsLockedAnewLeavesItFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		s := newStorage(t, locks.Client)
		lock(t, s, lockName)
		locks.Lose("certmagic:" + lockName)
		if err := s.RenewLockLease(t.Context(), lockName, 0); !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("the first call after a loss: %v", err)
		}
		release := locks.Block("certmagic:" + lockName)
		renewed := make(chan error, 1)
		go func() { renewed <- s.RenewLockLease(t.Context(), lockName, 0) }()
		synctest.Wait() // it waits
		if err := s.Unlock(t.Context(), lockName); !errors.Is(err, leasehold.ErrLost) {
			t.Error(err)
		}
		release()
		if err := <-renewed; !errors.Is(err, certmagiclock.ErrNotHeld) {
			t.Errorf("RenewLockLease: %v; want ErrNotHeld", err)
		}
		if locks.Held("certmagic:" + lockName) {
			t.Error("the name is held, and nobody will unlock it")
		}
	})
}

// The second one waits in the queue while the first one loses its lease.
func TestAWaiterOfTheProcessGivesBackWhatItCannotUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := leaseholdtest.New(t)
		s := newStorage(t, locks.Client)
		lock(t, s, lockName)
		locked := make(chan error, 1)
		go func() { locked <- s.Lock(t.Context(), lockName) }()
		synctest.Wait() // it waits
		locks.Lose("certmagic:" + lockName)
		synctest.Wait()
		if locks.Held("certmagic:" + lockName) {
			t.Error("the name is held, although the first has not unlocked")
		}
		if err := s.Unlock(t.Context(), lockName); !errors.Is(err, leasehold.ErrLost) {
			t.Error(err)
		}
		if err := errors.Join(<-locked, s.Unlock(t.Context(), lockName)); err != nil {
			t.Error(err)
		}
	})
}
