package mysqllock

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// secured is a server with a certificate, which believes in clients that its own
// authority signed.
func secured(t *testing.T) (*servers.MariaDBServer, servers.Certs) {
	t.Helper()
	c := servers.MakeCerts(t)
	args := []string{"--ssl-ca=" + c.CA, "--ssl-cert=" + c.Cert, "--ssl-key=" + c.Key}
	if elsewhere {
		args = append(args, "--bind-address=127.0.0.1,127.0.0.2")
	}
	return servers.MariaDB(t, &servers.MariaDBOptions{Args: args}), c
}

// elsewhere: all of 127.0.0.0/8 is this machine, where it is not only 127.0.0.1.
const elsewhere = runtime.GOOS == "linux"

// encrypted reports whether this client's connections are.
func encrypted(t *testing.T, e *Engine) bool {
	t.Helper()
	var name, cipher string
	if err := e.client.db.QueryRowContext(within(t), "SHOW SESSION STATUS LIKE 'Ssl_cipher'").Scan(&name, &cipher); err != nil {
		t.Fatal(err)
	}
	return cipher != ""
}

func with(u string, q ...string) string {
	v := url.Values{}
	for i := 0; i < len(q); i += 2 {
		v.Set(q[i], q[i+1])
	}
	return u + "?" + v.Encode()
}

func TestWhomTLSBelieves(t *testing.T) {
	t.Parallel()
	s, c := secured(t)
	u, other := s.URL("", ""), servers.MakeCerts(t)
	const unknown = "signed by unknown authority"
	for name, q := range map[string][]string{
		"its authority":                      {"ca", c.CA},
		"its authority, and tls=true beside": {"ca", c.CA, "tls", "true"},
		"anybody":                            {"tls", "skip-verify"},
		"anybody, or no TLS":                 {"tls", "preferred"},
	} {
		e := open(t, with(u, q...))
		if !encrypted(t, e) {
			t.Errorf("%s: it is not encrypted", name)
		}
		if join(t, e, exclusive(name)).State != engine.Held {
			t.Errorf("%s: no lock", name)
		}
	}
	if encrypted(t, open(t, u)) {
		t.Error("without a parameter it is encrypted: mend this test")
	}
	refused(t, with(u, "tls", "true"), unknown) // by the machine's authorities
	refused(t, with(u, "ca", other.CA), unknown)
	refused(t, with(u, "ca", c.CA, "tls", "skip-verify"), "leave it out")
	refused(t, with(u, "ca", c.Key), "holds no certificate")
	refused(t, with(u, "ca", c.CA+"x"), "no such file")
	refused(t, with(u, "ca", c.CA, "cert", c.Cert), "this client's certificate")
	refused(t, with(u, "tls", "perhaps"), "perhaps")

	if elsewhere { // an address that is not in the certificate
		u = strings.Replace(u, "127.0.0.1", "127.0.0.2", 1)
		open(t, with(u, "tls", "skip-verify"))
		refused(t, with(u, "ca", c.CA), "not 127.0.0.2")
		refused(t, with(u, "tls", "true"), "not 127.0.0.2") // the name is looked at before the authority
	}
}

func TestAServerWithoutTLSIsRefused(t *testing.T) {
	t.Parallel()
	var o servers.MariaDBOptions
	if servers.MySQLD() != "" {
		o.Args = []string{"--tls-version="} // it makes itself a certificate
	}
	s := servers.MariaDB(t, &o)
	u, c := s.URL("", ""), servers.MakeCerts(t)
	const none = "this server has no TLS"
	refused(t, with(u, "tls", "true"), none)
	refused(t, with(u, "tls", "skip-verify"), none)
	refused(t, with(u, "ca", c.CA), none)
	if encrypted(t, open(t, with(u, "tls", "preferred"))) {
		t.Error("there is TLS: mend this test")
	}
}

// A server may want clients to show who they are, and a password.
func TestWhoAClientIs(t *testing.T) {
	t.Parallel()
	s, c := secured(t)
	for _, user := range []string{"plain@localhost IDENTIFIED BY 'sesame'", "shown@localhost IDENTIFIED BY 'sesame' REQUIRE X509"} {
		name, _, _ := strings.Cut(user, " ")
		if _, err := s.Query(fmt.Sprintf("CREATE USER %s; GRANT ALL ON test.* TO %s", user, name)); err != nil {
			t.Fatal(err)
		}
	}
	as := func(who string) string { return strings.Replace(s.URL("", ""), "root@", who+"@", 1) }
	const denied = "Access denied"
	open(t, as("plain:sesame"))
	open(t, with(as("plain:sesame"), "ca", c.CA))
	open(t, with(as("shown:sesame"), "ca", c.CA, "cert", c.Cert, "key", c.Key))
	refused(t, as("plain:wrong"), denied)
	refused(t, as("plain"), denied)
	refused(t, as("shown:sesame"), denied)
	refused(t, with(as("shown:sesame"), "ca", c.CA), denied)
	other := servers.MakeCerts(t) // of an authority that the server does not know
	refused(t, with(as("shown:sesame"), "ca", c.CA, "cert", other.Cert, "key", other.Key), "")
}
