// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/internal/testrun"
)

// hello is what a client of TLS says first.
func hello(t *testing.T) []byte {
	t.Helper()
	client, server := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { _ = tls.Client(client, &tls.Config{ServerName: "x"}).HandshakeContext(ctx) }() //nolint:gosec // says hello, and no more
	b := make([]byte, 1<<14)
	n, err := server.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// heavy is c with a chain of n more certificates of size bytes that are none.
func heavy(c tls.Certificate, n, size int) tls.Certificate {
	c.Certificate = slices.Clone(c.Certificate)
	for range n {
		c.Certificate = append(c.Certificate, make([]byte, size))
	}
	return c
}

func TestADaemonWithTLSUnderAttack(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks a process for seconds")
	}
	t.Parallel()
	if err := moreFiles(); err != nil {
		t.Fatal(err)
	}
	dir, authority := t.TempDir(), certtest.New(t)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, key := certtest.Encode(t, authority.Issue(t, "daemon", certtest.Loopback))
	ca, certFile, keyFile := file("ca.pem", authority.PEM()), file("cert.pem", cert), file("key.pem", key)
	d := start(t, "--tls-cert", certFile, "--tls-key", keyFile, "--tls-client-ca", ca,
		"--admin-cert", certFile, "--admin-key", keyFile, "--admin-client-ca", ca,
		"--cluster-cert", certFile, "--cluster-key", keyFile, "--cluster-ca", ca)
	honest := authority.Issue(t, "honest")
	d.tls = &tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{honest}, MinVersion: tls.VersionTLS12}

	many := 8
	if testrun.Long() {
		many = 100
	}
	first, stranger := hello(t), certtest.New(t).Issue(t, "stranger")
	expired := authority.IssueAltered(t, "honest", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	early := authority.IssueAltered(t, "honest", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) })
	server := authority.IssueAltered(t, "honest", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	forged := certtest.Of(t, honest).Issue(t, "honest")
	forged.Certificate = append(forged.Certificate, honest.Certificate...)
	var admitted atomic.Int64
	// shows shakes hands, asks for an answer or sends again, and reads until the server
	// ends the connection.
	shows := func(c tls.Certificate, version uint16, again string) func(net.Conn) {
		config := &tls.Config{
			RootCAs: authority.Pool(), ServerName: "daemon", MinVersion: version, MaxVersion: version, NextProtos: []string{"h2"},
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil },
		}
		return func(raw net.Conn) {
			conn := tls.Client(raw, config)
			switch err := conn.HandshakeContext(t.Context()); {
			case err != nil:
			case again != "":
				_, _ = io.WriteString(raw, again)
				_, _ = io.Copy(io.Discard, conn)
			default:
				_, _ = io.WriteString(conn, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00") // no settings
				if n, _ := io.Copy(io.Discard, conn); n > 0 {
					admitted.Add(1)
				}
			}
		}
	}
	attacks := map[string]func(net.Conn){
		"noise":                func(c net.Conn) { noise(c, 2) },
		"silence":              func(c net.Conn) { halves(c, "") },
		"plain text":           func(c net.Conn) { halves(c, "POST /v1/allow HTTP/1.1\r\nHost: x\r\n\r\n") },
		"half a hello":         func(c net.Conn) { halves(c, string(first[:len(first)/2])) },
		"nothing after hello":  func(c net.Conn) { halves(c, string(first)) },
		"a record without end": func(c net.Conn) { halves(c, "\x16\x03\x01\xff\xff"+strings.Repeat("x", 1<<16)) },
		"a hello of 16 MiB": func(c net.Conn) {
			halves(c, strings.Repeat("\x16\x03\x01\x40\x00\x01\xff\xff\xff"+strings.Repeat("x", 1<<14-4), 100))
		},
		"a stranger's certificate":       shows(stranger, tls.VersionTLS13, ""),
		"a stranger's with TLS 1.2":      shows(stranger, tls.VersionTLS12, ""),
		"an expired one":                 shows(expired, tls.VersionTLS13, ""),
		"one that is not valid yet":      shows(early, tls.VersionTLS13, ""),
		"a server's":                     shows(server, tls.VersionTLS13, ""),
		"one that a program signed":      shows(forged, tls.VersionTLS13, ""),
		"no certificate":                 shows(tls.Certificate{}, tls.VersionTLS13, ""),
		"a chain of 1 MiB":               shows(heavy(stranger, 1, 1<<20), tls.VersionTLS13, ""),
		"a chain of 1 MiB after its own": shows(heavy(honest, 1, 1<<20), tls.VersionTLS13, ""),
		"a chain of 1000":                shows(heavy(stranger, 1000, 200), tls.VersionTLS13, ""),
		"renegotiation":                  shows(honest, tls.VersionTLS12, string(first)),
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began, over := time.Now(), make(chan struct{})
	go func() {
		defer close(over)
		done := make(chan struct{})
		n := 0
		for name, attack := range attacks {
			for _, address := range []string{d.victim.Edge, d.victim.HTTP, d.victim.Cluster, d.victim.Admin} {
				n++
				go func() {
					each(ctx, many, "tcp", address, attack)
					if ctx.Err() != nil {
						t.Errorf("the daemon let an attack go on: %s at %s", name, address)
					}
					done <- struct{}{}
				}()
			}
		}
		for range n {
			<-done
		}
	}()
	calls := d.honest(t, 1, over)
	took := time.Since(began)
	_, most := d.memory(t)
	t.Logf("memory: %d MiB at most; attacked for %v; honest p99 %v (%d calls)", most, took.Round(time.Second), p99(calls), len(calls))
	if most > mostMemory {
		t.Errorf("the daemon had %d MiB, more than %d", most, mostMemory)
	}
	if n := admitted.Load(); n > 0 {
		t.Errorf("%d connections of strangers were answered", n)
	}
	d.checkLog(t, began)
}
