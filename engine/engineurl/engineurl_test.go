package engineurl

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for raw, want := range map[string]URL{
		"x://":           {Scheme: "x"},
		"X://h":          {Scheme: "x", Authority: "h"},
		"xs://h:1,[::1]": {Scheme: "xs", Authority: "h:1,[::1]"},
		"x://u@h/a/b?c=d&e=%20": {
			Scheme: "x", User: "u", Authority: "h", Path: "a/b",
			Params: map[string][]string{"c": {"d"}, "e": {" "}},
		},
		"x://u:p@w@h/":      {Scheme: "x", User: "u", Password: "p@w", Authority: "h", colon: true},
		"x://u:p#w@h":       {Scheme: "x", User: "u", Password: "p#w", Authority: "h", colon: true},
		"x://:%2f%40@h/%3f": {Scheme: "x", Password: "/@", Authority: "h", Path: "?", colon: true},
	} {
		got, err := Parse(raw, "x", "xs")
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		if got.Scheme != want.Scheme || got.User != want.User || got.Password != want.Password || got.Authority != want.Authority ||
			got.Path != want.Path || got.Params.Encode() != want.Params.Encode() || got.HasPassword() != want.colon {
			t.Errorf("%s says %+v, want %+v", raw, *got, want)
		}
	}
}

// What cannot be read is told without any part of the URL.
func TestWhatCannotBeReadIsNotShown(t *testing.T) {
	for raw, want := range map[string]string{
		"":                      "an unknown scheme: known are x://, xs://",
		"x:sesame":              "an unknown scheme",
		"sesame://h":            "an unknown scheme",
		"x://h?sesame=%zz":      "the query of the URL",
		"x://sesame%zz@h":       "the user or the password",
		"x://u:sesame%zz@h":     "the user or the password",
		"x://u:ses/ame@h":       "after its first /",
		"x://u:sesame/1@h":      "after its first /",
		"x://u:1/sesame@h/db":   "after its first /",
		"x://u:1?sesame@h":      "after its first /",
		"x://u:1?sesame=1@h":    "after its first /",
		"x://u:p@sesame/1@h":    "after its first /",
		"x://h/sesame#1":        "after its first /",
		"x://h?sesame#1":        "after its first /",
		"x://u:p@h/sesame%zz/a": "the path",
	} {
		_, err := Parse(raw, "x", "xs")
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) || err != nil && strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v, want %q", raw, err, want)
		}
	}
}

func TestHosts(t *testing.T) {
	for authority, want := range map[string][]string{
		"h": {"h:7"}, "h:65535": {"h:65535"}, "h:1,[::1]:2,[::1]": {"h:1", "[::1]:2", "[::1]:7"},
		"": nil, "h,": nil, "h:0": nil, "h:65536": nil, "h:x": nil, "a b": nil, "h#x": nil,
	} {
		got, err := (&URL{Authority: authority}).Hosts("7")
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q is %q, %v; want %q", authority, got, err, want)
		}
	}
	if got, err := (&URL{Authority: "h"}).Hosts(""); err == nil {
		t.Errorf("a host without a port is %q", got)
	}
}

func TestParameters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("sesame\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := Parse("x://u@h?password-file="+file+"&alone&yes=true&no=0&odd=maybe", "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := u.PasswordFile(); err != nil || u.Password != "sesame" {
		t.Errorf("the password is %q, %v", u.Password, err)
	}
	if _, err := Secret(file + "x"); err == nil || !strings.Contains(err.Error(), "read the password") {
		t.Error(err)
	}
	for name, want := range map[string]bool{"alone": true, "yes": true, "no": false, "absent": true} {
		got := name == "absent" // is left as it is
		if err := Bool(u.Params, name, &got); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %v", name, got, err, want)
		}
	}
	var odd bool
	if err := Bool(u.Params, "odd", &odd); err == nil || !strings.Contains(err.Error(), `odd="maybe" is neither: write true or false`) {
		t.Error(err)
	}
	if err := u.Only("password-file", "alone", "yes", "no", "odd"); err != nil {
		t.Error(err)
	}
	if err := u.Only("password-file", "alone", "yes", "no"); err == nil || !strings.Contains(err.Error(), `unknown parameter "odd": known are password-file, alone`) {
		t.Error(err)
	}
}

func TestTLS(t *testing.T) {
	c, err := TLS(nil)
	if err != nil || c.MinVersion != tls.VersionTLS12 || c.InsecureSkipVerify || c.RootCAs != nil {
		t.Errorf("%+v, %v", c, err)
	}
	none := filepath.Join(t.TempDir(), "none")
	if err := os.WriteFile(none, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]string{
		"ca=" + none: "holds no certificate", "ca=" + none + "x": "the certificate authority",
		"cert=" + none: "this client's certificate", "key=" + none: "this client's certificate",
	} {
		u, err := Parse("x://h?"+params, "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := TLS(u.Params); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
	}
}

// A file counts where one is named, whatever else the URL says, and all that it says but
// for the end of its line.
func TestAPasswordFileCounts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(" open sesame \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]string{"password-file=" + file: " open sesame ", "password-file=": "said", "": "said"} {
		u, err := Parse("x://u:said@h?"+params, "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := u.PasswordFile(); err != nil || u.Password != want {
			t.Errorf("%q: the password is %q, %v; want %q", params, u.Password, err, want)
		}
	}
}

// Whoever is named is believed, and nobody else; and who we are is shown.
func TestTheFilesOfTLSCount(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{
		"cert": {Type: "CERTIFICATE", Bytes: der}, "key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u, err := Parse("x://h?ca="+dir+"/cert&cert="+dir+"/cert&key="+dir+"/key", "x")
	if err != nil {
		t.Fatal(err)
	}
	c, err := TLS(u.Params)
	if err != nil {
		t.Fatal(err)
	}
	only := x509.NewCertPool()
	only.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if c.RootCAs == nil || !c.RootCAs.Equal(only) || c.InsecureSkipVerify || c.MinVersion != tls.VersionTLS12 {
		t.Errorf("the authority that was named is not the only one believed: %+v", c)
	}
	if len(c.Certificates) != 1 || !slices.Equal(c.Certificates[0].Certificate[0], der) {
		t.Errorf("%d certificates of this client, want the one that was named", len(c.Certificates))
	}
}
