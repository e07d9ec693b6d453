// SPDX-License-Identifier: Apache-2.0

// Package certtest makes certificates for tests, which are good for an hour. It knows no server
// and no client.
package certtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// Loopback is the address that tests listen at.
var Loopback = net.IPv4(127, 0, 0, 1)

// Authority signs certificates. Use New.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an Authority that no one else trusts.
func New(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &Authority{key: key}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = a.sign(t, template, template, &key.PublicKey)
	return a
}

// Of is an Authority that signs with c, one of Issue's, although c's own authority
// does not let it.
func Of(t testing.TB, c tls.Certificate) *Authority {
	t.Helper()
	key, ok := c.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("a private key of type %T: use a certificate of Issue's", c.PrivateKey)
	}
	return &Authority{cert: c.Leaf, key: key}
}

// Pool is of those who trust a.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// PEM is a's own certificate, as files have it.
func (a *Authority) PEM() string { return encode("CERTIFICATE", a.cert.Raw) }

// Issue makes a certificate, for a server or a client, by whose common name and
// DNS name it is; empty: it has none.
func (a *Authority) Issue(t testing.TB, name string, addresses ...net.IP) tls.Certificate {
	t.Helper()
	return a.IssueAltered(t, name, func(c *x509.Certificate) { c.IPAddresses = addresses })
}

// IssueAltered is Issue, with a certificate that alter changes before a signs it.
func (a *Authority) IssueAltered(t testing.TB, name string, alter func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if name != "" {
		template.DNSNames = []string{name}
	}
	alter(template)
	cert := a.sign(t, template, a.cert, &key.PublicKey)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func (a *Authority) sign(t testing.TB, template, signer *x509.Certificate, key *ecdsa.PublicKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, signer, key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// Encode is a certificate and its key, as files have them.
func Encode(t testing.TB, c tls.Certificate) (cert, key string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return encode("CERTIFICATE", c.Certificate[0]), encode("PRIVATE KEY", der)
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
