// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/admin"
	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// trusting is the TLS of a program that trusts a, and shows a certificate of
// shown's with that name, if not nil.
func trusting(t *testing.T, a, shown *certtest.Authority, name string) *tls.Config {
	t.Helper()
	c := &tls.Config{RootCAs: a.Pool(), ServerName: "127.0.0.1"}
	if shown != nil {
		c.Certificates = []tls.Certificate{shown.Issue(t, name)}
	}
	return c
}

// secured is a daemon with a certificate of a's, also at HTTP.
func secured(t *testing.T, a *certtest.Authority) Config {
	t.Helper()
	c := config(t)
	cert, key := certtest.Encode(t, a.Issue(t, "daemon", certtest.Loopback))
	c.HTTP, c.TLS = "127.0.0.1:0", TLS{Cert: write(t, "cert.pem", cert), Key: write(t, "key.pem", key)}
	return c
}

func dialTLS(t *testing.T, address string, c *tls.Config) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(c)), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func allow(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	_, err := quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: "k", BucketName: "b", TokensRequested: 1})
	return err
}

// fetch gets the health of a daemon over HTTPS, and says in which protocol.
func fetch(t *testing.T, address string, c *tls.Config) (protocol string, err error) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/healthz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return "", err
	}
	return answer.Proto, answer.Body.Close()
}

func TestBothDoorsSpeakTLSAndTheUnixSocketDoesNot(t *testing.T) {
	a := certtest.New(t)
	c := secured(t, a)
	c.Unix = socket(t)
	d := start(t, c)
	if err := allow(t, dialTLS(t, d.Edge(), trusting(t, a, nil, ""))); err != nil {
		t.Error(err)
	}
	if protocol, err := fetch(t, d.HTTP(), trusting(t, a, nil, "")); err != nil || protocol != "HTTP/1.1" {
		t.Errorf("%s, %v", protocol, err)
	}
	conn, err := grpc.NewClient("unix:"+c.Unix, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := allow(t, conn); err != nil {
		t.Error(err)
	}
	if status, text := post(t, httpTo(t, "unix", c.Unix), `{"key": "k:b"}`); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	// Plain text, and who trusts somebody else, get nowhere.
	if err := allow(t, dial(t, d.Edge())); err == nil {
		t.Error("plain text is answered at the edge")
	}
	if status, err := get(t, httpTo(t, "tcp", d.HTTP()), "/healthz"); err == nil && status != 400 {
		t.Errorf("plain text is answered over HTTP: %d", status)
	}
	if err := allow(t, dialTLS(t, d.Edge(), trusting(t, certtest.New(t), nil, ""))); err == nil {
		t.Error("who does not trust the daemon is served")
	}
}

// Whose handshake fails is logged at each door, where all else is. A check that the port is open
// fails none.
func TestHandshakesThatFailAreLogged(t *testing.T) {
	log, logged := recording()
	d, err := Start(t.Context(), secured(t, certtest.New(t)), log)
	if err != nil {
		t.Fatal(err)
	}
	check, err := new(net.Dialer).DialContext(t.Context(), "tcp", d.Edge())
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Close(); err != nil {
		t.Error(err)
	}
	_, _ = get(t, httpTo(t, "tcp", d.HTTP()), "/healthz") // plain text
	if err := allow(t, dial(t, d.Edge())); err == nil {
		t.Error("plain text is answered at the edge")
	}
	if err := d.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	for _, door := range []string{"http", "edge"} {
		found := false
		for line := range strings.Lines(logged()) {
			failed := strings.Contains(line, "TLS handshake error") && strings.Contains(line, "server="+door)
			found = found || failed && strings.Contains(line, "level=WARN")
			if failed && strings.Contains(line, "EOF") {
				t.Errorf("who says nothing is logged: %s", line)
			}
		}
		if !found {
			t.Errorf("nothing of the door %s is logged:\n%s", door, logged())
		}
	}
}

func TestProgramsNeedACertificate(t *testing.T) {
	a, programs := certtest.New(t), certtest.New(t)
	c := secured(t, a)
	c.TLS.ClientCA = write(t, "programs.pem", programs.PEM())
	d := start(t, c)
	for name, tc := range map[string]struct {
		config *tls.Config
		ok     bool
	}{
		"theirs":            {trusting(t, a, programs, "orders"), true},
		"none":              {trusting(t, a, nil, ""), false},
		"another's":         {trusting(t, a, a, "orders"), false},
		"a self-made one's": {trusting(t, a, certtest.New(t), "orders"), false},
	} {
		if err := allow(t, dialTLS(t, d.Edge(), tc.config)); (err == nil) != tc.ok {
			t.Errorf("%s, gRPC: %v", name, err)
		}
		if _, err := fetch(t, d.HTTP(), tc.config); (err == nil) != tc.ok {
			t.Errorf("%s, HTTP: %v", name, err)
		}
	}
}

// Two programs with the same name and other certificates are two hosts.
func TestTheCertificateIsPartOfWhoAHostIs(t *testing.T) {
	a := certtest.New(t)
	c := secured(t, a)
	c.TLS.ClientCA = write(t, "programs.pem", a.PEM())
	d := start(t, c)
	client, err := rpcgrpc.NewClient([]string{d.Edge()}, rpcgrpc.ClientOptions{TLS: trusting(t, a, a, "orders")})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	eventually(t, "a host with a certificate has a grant", func() bool {
		g, err := ask(t, client, "me")
		return err == nil && g.Lease[0] > 0
	})
	nameless, err := rpcgrpc.NewClient([]string{d.Edge()}, rpcgrpc.ClientOptions{TLS: trusting(t, a, a, "")})
	if err != nil {
		t.Fatal(err)
	}
	defer nameless.Close()
	if _, err := ask(t, nameless, "me"); err == nil || !strings.Contains(err.Error(), "has no name") {
		t.Errorf("a certificate without a name: %v", err)
	}
}

func TestCertificatesAreFollowed(t *testing.T) {
	old, next := certtest.New(t), certtest.New(t)
	c, log := secured(t, old), new(notes)
	d, err := Start(t.Context(), c, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Stop(context.Background()) }()
	served := func(by *certtest.Authority) bool {
		_, err := fetch(t, d.HTTP(), trusting(t, by, nil, ""))
		return err == nil && allow(t, dialTLS(t, d.Edge(), trusting(t, by, nil, ""))) == nil
	}
	if !served(old) || served(next) {
		t.Fatal("the first certificate is not served")
	}
	replace := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, key := certtest.Encode(t, next.Issue(t, "daemon", certtest.Loopback))
	check := func() admin.Check { return d.health().Checks["edge certificate"] }
	if got := d.health(); !check().OK || len(got.Checks) != 5 {
		t.Errorf("%+v", got)
	}
	replace(c.TLS.Cert, cert) // and not yet its key
	eventually(t, "the log says that they do not match", func() bool { served(old); return strings.Contains(log.String(), "private key does not match") })
	if !served(old) {
		t.Error("the last good certificate is gone")
	}
	if got := check(); got.OK || !strings.Contains(got.Error, "mend the file") {
		t.Errorf("%+v", got)
	}
	replace(c.TLS.Key, key)
	eventually(t, "the next certificate is served", func() bool { return served(next) && !served(old) && check().OK })
	if err := os.Remove(c.TLS.Cert); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log says that it is gone", func() bool { return !served(old) && strings.Contains(log.String(), "no such file") })
	if !served(next) {
		t.Error("the last good certificate is gone")
	}
	if n := strings.Count(log.String(), "no such file"); n > 2 { // one for each door
		t.Errorf("told %d times", n)
	}
}

func TestAParentIsAskedOverTLS(t *testing.T) {
	a := certtest.New(t)
	above := secured(t, a)
	above.TLS.ClientCA = write(t, "clusters.pem", a.PEM())
	above.Limits = write(t, "limits.yaml", "defaults: {update_interval: 100ms}\nlimits: [{key: k, limit: 100/s, algorithm: proportional-share, learning: 0s}]")
	top := start(t, above)
	below := secured(t, a)
	below.Limits = write(t, "limits.yaml", "defaults: {update_interval: 100ms}\nlimits: [{key: k, limit: 1000/s, parent: true, fallback: closed}]")
	below.Parent, below.Cluster, below.ParentCA = []string{top.Edge()}, "below", write(t, "ca.PEM()", a.PEM())
	d := start(t, below)
	eventually(t, "what the cluster above leases is there", func() bool { return d.Node().For("k").Allow() })
}

func TestMistakesAboutTLS(t *testing.T) {
	a := certtest.New(t)
	good := secured(t, a).TLS
	other := secured(t, a).TLS
	for want, change := range map[string]func(c *Config){
		"go together":            func(c *Config) { c.TLS = TLS{Cert: "x"} },
		"no certificate to show": func(c *Config) { c.TLS = TLS{ClientCA: "x"} },
		"nowhere: no such file":  func(c *Config) { c.TLS = TLS{Cert: filepath.Join(t.TempDir(), "nowhere"), Key: good.Key} },
		"does not match":         func(c *Config) { c.TLS = TLS{Cert: good.Cert, Key: other.Key} },
		"has more than 1048576": func(c *Config) {
			c.TLS = TLS{Cert: write(t, "x", strings.Repeat("x", 1<<20+1)), Key: good.Key}
		},
		"a file of authorities has":  func(c *Config) { c.TLS = good; c.TLS.ClientCA = write(t, "x", "") },
		"authority, but no parent":   func(c *Config) { c.ParentCA = "x" },
		"parent: tls: stat nowhere:": func(c *Config) { c.Parent, c.Cluster, c.ParentCA = []string{"h:1"}, "c", "nowhere" },
	} {
		c := config(t)
		change(&c)
		if d, err := Start(t.Context(), c, quiet); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
			if err == nil {
				_ = d.Stop(context.Background())
			}
		}
	}
}
