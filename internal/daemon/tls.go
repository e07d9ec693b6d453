// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/filewatch"
)

// TLS names the files of certificates, in PEM. They may change at any time:
// they are looked at as programs connect, at most twice a second. What is
// broken or gone then changes nothing.
type TLS struct {
	// Cert is the certificate of Edge and HTTP, with what leads to its
	// authority, and Key its key. Both, or neither: then they speak plain text.
	Cert, Key string
	// ClientCA are authorities. Programs need a certificate of one of them,
	// whose name is part of who they are: see identity. Default none.
	ClientCA string
}

const (
	// lookEvery is how often files are read, in case the system tells nothing of changes.
	lookEvery = 500 * time.Millisecond

	// maxPEM bounds each of the files, in bytes.
	maxPEM = 1 << 20
)

// validate returns what is wrong with t.
func (t TLS) validate() error {
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return errors.New("tls: a certificate and its key go together: name both files")
	case t.ClientCA != "" && t.Cert == "":
		return errors.New("tls: there are authorities of clients, and no certificate to show them: name its files")
	}
	return nil
}

// pems is what is in the files of a TLS.
type pems struct{ cert, key, clientCA []byte }

func (t TLS) read() (p pems, err error) {
	for _, file := range []struct {
		path string
		text *[]byte
	}{{t.Cert, &p.cert}, {t.Key, &p.key}, {t.ClientCA, &p.clientCA}} {
		if file.path == "" {
			continue
		}
		if *file.text, err = readPEM(file.path); err != nil {
			return pems{}, err
		}
	}
	return p, nil
}

func readPEM(path string) ([]byte, error) {
	text, err := filewatch.Read(path, maxPEM)
	if err == nil && len(text) > maxPEM {
		err = fmt.Errorf("%s has more than %d bytes", path, maxPEM)
	}
	return text, err
}

func (p pems) equal(other pems) bool {
	return bytes.Equal(p.cert, other.cert) && bytes.Equal(p.key, other.key) && bytes.Equal(p.clientCA, other.clientCA)
}

// config is what p says to servers that speak protocols.
func (p pems) config(protocols []string) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{pair}}
	if p.clientCA != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs, err = authorities(p.clientCA)
	}
	return c, err
}

func authorities(text []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, errors.New("a file of authorities has no certificate")
	}
	return pool, nil
}

// parentTLS is how the cluster above is asked; nil for plain text.
func (c Config) parentTLS(log *slog.Logger) (*tls.Config, error) {
	if c.ParentCA == "" {
		return nil, nil
	}
	text, err := readPEM(c.ParentCA)
	if err != nil {
		return nil, fmt.Errorf("parent: tls: %w", err)
	}
	pool, err := authorities(text)
	if err != nil {
		return nil, fmt.Errorf("parent: tls: %s: %w", c.ParentCA, err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	if c.TLS.Cert != "" {
		own, err := newCertificates(TLS{Cert: c.TLS.Cert, Key: c.TLS.Key}, log.With("at", "parent"))
		if err != nil {
			return nil, err
		}
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &own.current(time.Now()).Certificates[0], nil
		}
	}
	return t, nil
}

// certificates follow the files of a TLS. Use newCertificates. Safe for
// concurrent use.
type certificates struct {
	files     TLS
	protocols []string
	log       *slog.Logger

	mu     sync.Mutex // protects following fields
	looked time.Time
	seen   pems // that good is made of
	good   *tls.Config
	logged string
}

// newCertificates reads files for servers that speak protocols, the best first.
func newCertificates(files TLS, log *slog.Logger, protocols ...string) (*certificates, error) {
	c := &certificates{files: files, protocols: protocols, log: log, looked: time.Now()}
	var err error
	if c.seen, err = files.read(); err == nil {
		c.good, err = c.seen.config(protocols)
	}
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	return c, nil
}

// config is a server's, which asks c for each connection.
func (c *certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: c.protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current(time.Now()), nil
		},
	}
}

// current is the last good config.
func (c *certificates) current(now time.Time) *tls.Config {
	config, changed, err := c.look(now)
	if changed {
		c.log.Info("certificates changed")
	}
	if err != nil {
		c.log.Error("certificates cannot be used, the last good ones stay", "error", err)
	}
	return config
}

// look reads the files when it is time. The error is one that nobody heard of.
func (c *certificates) look(now time.Time) (good *tls.Config, changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	if now.Sub(c.looked) < lookEvery {
		return c.good, false, nil
	}
	c.looked = now
	changed, err = c.readLocked()
	switch {
	case err == nil:
		c.logged = ""
	case err.Error() == c.logged:
		err = nil
	default:
		c.logged = err.Error()
	}
	return c.good, changed, err
}

func (c *certificates) readLocked() (changed bool, err error) {
	p, err := c.files.read()
	if err != nil || p.equal(c.seen) {
		return false, err
	}
	config, err := p.config(c.protocols)
	if err != nil {
		return false, err
	}
	c.good, c.seen = config, p
	return true, nil
}
