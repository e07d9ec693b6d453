// SPDX-License-Identifier: Apache-2.0

// Package certs has the certificates of all listeners of a daemon, and follows their
// files.
//
//	c, err := certs.Open(certs.Files{Cert: "edge.pem", Key: "edge.key", CA: "programs.pem"}, log)
//	go c.Run(ctx)
//	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(c.Server("h2"))))
//
// Each new connection is checked by what the files say then. Connections that are open
// stay.
//
// Out of scope: who the names in certificates are (internal/daemon/callers).
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/daemon/follow"
)

// maxPEM bounds each of the files, in bytes.
const maxPEM = 1 << 20

// Files names files of certificates, in PEM. They may change at any time. What is broken
// or gone then changes nothing. A certificate that is not good yet, or no longer, waits while the one before it
// is good, and so do authorities of which none is.
type Files struct {
	// Cert is the certificate, with the intermediate ones that lead to its authority,
	// and Key its key. Both, or neither: no TLS.
	Cert, Key string

	// CA are authorities. The other side needs a certificate that one of them has
	// signed. Default none: a server asks for no certificate.
	CA string
}

// Set reports whether there is a certificate.
func (f Files) Set() bool { return f.Cert != "" }

// Validate returns what is wrong with f, which is for what.
func (f Files) Validate(what string) error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return fmt.Errorf("%s: a certificate and its key go together: name both files", what)
	case f.CA != "" && f.Cert == "":
		return fmt.Errorf("%s: there are authorities of clients, and no certificate to show them: name its files", what)
	}
	return nil
}

// Certificates follow Files. Use Open. Safe for concurrent use.
type Certificates struct{ *follow.Files[material] }

// material is what Files say.
type material struct {
	own         tls.Certificate
	trusted     []*x509.Certificate // the authorities
	authorities *x509.CertPool      // the same; nil without any
}

// Open reads files, which have a certificate.
func Open(files Files, log *slog.Logger) (*Certificates, error) {
	paths := []string{files.Cert, files.Key}
	if files.CA != "" {
		paths = append(paths, files.CA)
	}
	c := new(Certificates)
	var err error
	c.Files, err = follow.Open("tls: the certificate", paths, maxPEM, func(texts []string) (material, error) {
		m, err := parse(texts)
		if now := time.Now(); err == nil && c.Files != nil && c.Current().good(now) == nil {
			err = m.good(now) // a certificate that everybody refuses replaces none that is good
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", strings.Join(paths, ", "), err)
		}
		return m, err
	}, log)
	if err != nil {
		return nil, err
	}
	if err := c.Current().good(time.Now()); err != nil {
		log.Warn("tls: who connects refuses this daemon, or is refused by it", "error", err)
	}
	return c, nil
}

func parse(texts []string) (m material, err error) {
	if m.own, err = tls.X509KeyPair([]byte(texts[0]), []byte(texts[1])); err != nil {
		return m, err
	}
	for i, raw := range m.own.Certificate[1:] { // the first one was read
		if _, err := x509.ParseCertificate(raw); err != nil {
			return m, fmt.Errorf("certificate %d of the file is broken, which leads to the authority: %w", i+2, err)
		}
	}
	if len(texts) > 2 {
		m.trusted, err = authorities(texts[2])
		m.authorities = poolOf(m.trusted)
	}
	return m, err
}

// Authorities are those in a file of certificates, in PEM. It refuses a file with a broken one: of
// the authority that it lacks, everybody would be refused.
func Authorities(text string) (*x509.CertPool, error) {
	all, err := authorities(text)
	return poolOf(all), err
}

func poolOf(all []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range all {
		pool.AddCert(c)
	}
	return pool
}

// authorities are those of Authorities.
func authorities(text string) (all []*x509.Certificate, err error) {
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d of a file of authorities is broken: write it anew, or remove it: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	switch n, begun := len(all), strings.Count(text, "-----BEGIN CERTIFICATE-----"); {
	case n == 0:
		return nil, errors.New("a file of authorities has no certificate")
	case n < begun:
		return nil, fmt.Errorf("%d of the %d certificates of a file of authorities cannot be read: is it complete?", begun-n, begun)
	}
	return all, nil
}

// Server is the config of a server that speaks protocols, the best first.
func (c *Certificates) Server(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.Current().server(protocols), nil
		},
	}
}

func (m material) server(protocols []string) *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{m.own}}
	if m.authorities != nil {
		t.ClientAuth, t.ClientCAs = tls.RequireAndVerifyClientCert, m.authorities
		// A ticket would stand for a certificate that may have lost its authority.
		t.SessionTicketsDisabled = true
	}
	return t
}

// Peer is the config of one that dials its equals and is dialled by them, as the files
// are now. With a name, both sides' certificates must be for that name. Without, that of
// the side which is dialled must be for the host that was dialled.
func (c *Certificates) Peer(name string) *tls.Config {
	m := c.Current()
	t := m.server(nil)
	t.RootCAs = m.authorities
	if name != "" {
		t.ServerName = name
		t.VerifyConnection = func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(name) }
	}
	return t
}

// Err says what is wrong with the files, or at now with the certificate in force; nil:
// nothing.
func (c *Certificates) Err(now time.Time) error {
	err := c.Current().good(now)
	if err == nil && !c.Newest() {
		err = errors.New("the certificate in its file cannot be used, and the last good one stays in force: mend the file; the log says what is wrong")
	}
	return err
}

// good says why the certificate, or every authority, is not good at now; nil: all is.
func (m material) good(now time.Time) error {
	if err := goodAt(now, m.own.Leaf); err != nil {
		return fmt.Errorf("the certificate %w, or put another one into its file", err)
	}
	var err error
	for _, c := range m.trusted {
		if err = goodAt(now, c); err == nil {
			return nil
		}
	}
	if err != nil {
		last := m.trusted[len(m.trusted)-1]
		return fmt.Errorf("no authority in the file is valid now, so no certificate can be checked: %q %w, or put another authority into the file", last.Subject, err)
	}
	return nil
}

// goodAt says why c is not good at now; nil: it is.
func goodAt(now time.Time, c *x509.Certificate) error {
	switch {
	case now.After(c.NotAfter):
		return fmt.Errorf("was good until %s: set the clock", c.NotAfter.Format(time.RFC3339))
	case now.Before(c.NotBefore):
		return fmt.Errorf("is good from %s on: set the clock", c.NotBefore.Format(time.RFC3339))
	}
	return nil
}

// Client returns the certificate, for tls.Config.
func (c *Certificates) Client(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	own := c.Current().own
	return &own, nil
}
