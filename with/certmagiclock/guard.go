package certmagiclock

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/caddyserver/certmagic"
	"golang.org/x/net/idna"
)

// issuing begins the names of the locks under which CertMagic issues a certificate.
const issuing = "issue_cert_"

// sitesOf returns the parts of a storage's keys that belong to the domain of an issuing lock. There
// are none for other locks. An address has three: as the lock has it, as the certificate has it, and
// the name under which CertMagic stores the token of a TLS-ALPN challenge.
func sitesOf(lock string) []string {
	domain, ok := strings.CutPrefix(lock, issuing)
	if !ok {
		return nil
	}
	sites := []string{keyPart(domain)}
	if ip := net.ParseIP(domain); ip != nil {
		sites = append(sites, keyPart(ip.String()), keyPart(reverse(ip)))
	}
	return sites
}

// reverse returns the name of an address in the DNS, without the last dot.
func reverse(ip net.IP) string {
	if v4 := ip.To4(); v4 != nil {
		return fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", v4[3], v4[2], v4[1], v4[0])
	}
	var name strings.Builder
	for _, b := range slices.Backward(ip) {
		fmt.Fprintf(&name, "%x.%x.", b&0xf, b>>4)
	}
	return name.String() + "ip6.arpa"
}

// keyPart is how CertMagic names a domain in keys. It takes the domains from the certificate, where
// they are in ASCII.
func keyPart(domain string) string {
	if ascii, err := idna.ToASCII(domain); err == nil {
		domain = ascii
	}
	return certmagic.StorageKeys.Safe(domain)
}

// siteOfKey returns the domain to which a key belongs, in the same form:
//
//	certificates/ISSUER/DOMAIN/FILE
//	certificates/ISSUER/DOMAIN           (Delete takes a folder too)
//	acme/CA/challenge_tokens/DOMAIN.json
//	zerossl/challenge_tokens/DOMAIN.json
func siteOfKey(key string) string {
	parts := strings.Split(key, "/")
	n := len(parts)
	switch {
	case n >= 3 && parts[0] == "certificates":
		return parts[2]
	case n >= 3 && parts[n-2] == "challenge_tokens":
		return strings.TrimSuffix(parts[n-1], path.Ext(parts[n-1]))
	}
	return ""
}

// Store puts value at key. It returns leasehold.ErrLost, and stores nothing, if the key belongs to
// a domain whose issuing lock this process has lost and not unlocked. All other keys and errors
// are those of the wrapped storage. Its context ends with the lease.
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	return s.guarded(ctx, "storing", key, func(ctx context.Context) error {
		return s.Storage.Store(ctx, key, value)
	})
}

// Delete deletes the key, and returns leasehold.ErrLost as Store does: CertMagic takes back its
// challenge, and what it stored of a certificate, when it fails. After a loss these files may be
// those of the next holder.
func (s *Storage) Delete(ctx context.Context, key string) error {
	return s.guarded(ctx, "deleting", key, func(ctx context.Context) error {
		return s.Storage.Delete(ctx, key)
	})
}

func (s *Storage) guarded(ctx context.Context, what, key string, fn func(context.Context) error) error {
	lease, err := s.guard(siteOfKey(key))
	if err != nil {
		return s.wrap(what, key, err)
	}
	if lease != nil {
		var cancel context.CancelFunc
		ctx, cancel = lease.Bind(ctx)
		defer cancel()
	}
	return fn(ctx)
}

// binder is the part of a lease that a guard uses.
type binder interface {
	Bind(context.Context) (context.Context, context.CancelFunc)
}

// guard returns the lease of a site; nil without one, and an error if one was lost. Locks of two
// names can be those of one site: the domain in Unicode and in ASCII.
func (s *Storage) guard(site string) (lease binder, err error) {
	if site == "" {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.holds {
		switch {
		case !slices.Contains(h.sites, site):
		case !h.lease.Valid():
			return nil, lossOf(h.lease)
		default:
			lease = h.lease
		}
	}
	return lease, nil
}

// Issuer wraps an issuer: its Issue works with a context that ends with the lease of the
// certificate's lock, and returns leasehold.ErrLost if the lease had been lost by its end. Without
// such a lock it passes calls through. The package's documentation has what CertMagic does only
// for an issuer that is not wrapped.
func (s *Storage) Issuer(inner certmagic.Issuer) certmagic.Issuer {
	i := issuer{inner, s}
	if ari, ok := inner.(certmagic.RenewalInfoGetter); ok {
		return struct {
			issuer
			certmagic.RenewalInfoGetter
		}{i, ari}
	}
	return i
}

type issuer struct {
	certmagic.Issuer
	storage *Storage
}

func (i issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	var lease binder
	for _, name := range namesOf(csr) {
		h, err := i.storage.guard(keyPart(name))
		if err != nil {
			return nil, i.storage.wrap("issuing for", name, err)
		}
		if h != nil {
			lease = h // CertMagic issues for one name at a time
		}
	}
	if lease == nil {
		return i.Issuer.Issue(ctx, csr)
	}
	bound, cancel := lease.Bind(ctx)
	defer cancel()
	cert, err := i.Issuer.Issue(bound, csr)
	if bound.Err() != nil && ctx.Err() == nil { // lost: what was issued may be another's to store
		return nil, fmt.Errorf("certmagiclock: issuing: %w", errors.Join(context.Cause(bound), err))
	}
	return cert, err
}

// namesOf returns the names of which one is that of the lock.
func namesOf(csr *x509.CertificateRequest) []string {
	names := append([]string{csr.Subject.CommonName}, csr.DNSNames...)
	names = append(names, csr.EmailAddresses...)
	for _, ip := range csr.IPAddresses {
		names = append(names, ip.String())
	}
	for _, u := range csr.URIs {
		names = append(names, u.String())
	}
	return names
}

// PreCheck is that of the wrapped issuer, if it has one.
func (i issuer) PreCheck(ctx context.Context, names []string, interactive bool) error {
	if p, ok := i.Issuer.(certmagic.PreChecker); ok {
		return p.PreCheck(ctx, names, interactive)
	}
	return nil
}

// Revoke is that of the wrapped issuer. It returns errors.ErrUnsupported if that has none.
func (i issuer) Revoke(ctx context.Context, cert certmagic.CertificateResource, reason int) error {
	if r, ok := i.Issuer.(certmagic.Revoker); ok {
		return r.Revoke(ctx, cert, reason)
	}
	return fmt.Errorf("certmagiclock: the issuer %s cannot revoke: %w", i.IssuerKey(), errors.ErrUnsupported)
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
	_ certmagic.PreChecker       = issuer{}
	_ certmagic.Revoker          = issuer{}
)
