// SPDX-License-Identifier: Apache-2.0

package rpcgrpc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// certificate is its own authority, for the host name only.
func certificate(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestACertificateIsForTheHostOfItsAddress(t *testing.T) {
	cert, pool := certificate(t, "localhost")
	ports := make([]string, 2)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer(append(rpcgrpc.ServerDefaults(),
			grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}})))...)
		rpcgrpc.Register(server, echo, rpcgrpc.ServerOptions{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = server.Serve(l)
		}()
		t.Cleanup(func() {
			server.Stop()
			<-ended
		})
		_, ports[i], _ = net.SplitHostPort(l.Addr().String())
	}
	for _, tc := range []struct {
		host string
		want string
	}{{"localhost", ""}, {"127.0.0.1", "certificate"}} {
		c, err := rpcgrpc.NewClient([]string{tc.host + ":" + ports[0], tc.host + ":" + ports[1]}, rpcgrpc.ClientOptions{TLS: &tls.Config{RootCAs: pool}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Update(t.Context(), "me", word)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.host, err)
		}
		c.Close()
	}
}
