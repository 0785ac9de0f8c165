// Package certmagiclock lets several processes of CertMagic (github.com/caddyserver/certmagic),
// the part of Caddy that manages certificates, share one storage without issuing twice. It wraps
// any certmagic.Storage: files stay there, and the locks are leasehold's.
//
//	storage, err := certmagiclock.New(&certmagic.FileStorage{Path: "/shared"}, locks, nil)
//	cfg := certmagic.New(cache, certmagic.Config{Storage: storage})
//	cfg.Issuers = []certmagic.Issuer{storage.Issuer(certmagic.NewACMEIssuer(cfg, template))}
//
// # What it promises
//
//   - One process at a time works on a certificate, in order of arrival if the engine has an order.
//     Waiting does not poll.
//   - Locks of a killed process are free when the TTL has passed. There is no lock file that
//     could stay behind empty, and none that could stay for ever.
//   - Goroutines of one process exclude each other, too. After a loss the next one of this process
//     begins when the one that lost the lock has unlocked. Other processes do not wait for that.
//     On zklock and etcdlock they wait until [Storage.RenewLockLease] has reported the loss, or
//     until Unlock.
//   - While a process has lost the lock of a domain and has not unlocked it, [Storage.Store] and
//     [Storage.Delete] refuse the certificate, the key and the challenges of that domain or address
//     with leasehold.ErrLost. So it neither overwrites nor deletes the files of the next holder.
//   - An issuer behind [Storage.Issuer] works with a context that ends with the lease: an order
//     in progress stops.
//
// # What CertMagic cannot know
//
// Lock returns no context, so CertMagic does not learn of a loss. It asks once at the beginning of
// each attempt of an asynchronous job, by [Storage.RenewLockLease]; a synchronous job never asks.
// Between two checks only the wrapped issuer and Store notice. The account of an ACME issuer and
// the state of the ACME server itself are not protected after a loss: a second account, or a
// second order, can be the result.
//
// A process that pauses between the check in Store and the write of the storage can still write
// late. The Storage interface has no place for a token.
//
// CertMagic's renewals replace the old certificate at the ACME server (ARI "replaces") only if the
// issuer is a *certmagic.ACMEIssuer itself. Behind [Storage.Issuer], as behind Caddy's own
// issuer, that field is missing; and certmagic.HTTPS, which installs its HTTP challenge handler by
// that type, needs the issuer unwrapped. Without Storage.Issuer all other promises stay.
package certmagiclock
