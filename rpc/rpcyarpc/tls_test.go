// SPDX-License-Identifier: Apache-2.0

package rpcyarpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/rpc/rpcyarpc"
)

// authority signs certificates of hosts for one test.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
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
	return &authority{key: key, cert: cert, pool: pool}
}

func (a *authority) host(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// certified believes the certificate, and refuses messages that claim otherwise.
func certified(ctx context.Context, claimed string) (string, error) {
	p, _ := peer.FromContext(ctx)
	if p == nil {
		return "", errors.New("no peer")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return "", errors.New("no certificate")
	}
	if name := info.State.VerifiedChains[0][0].DNSNames[0]; name != claimed {
		return "", errors.New("the certificate is of " + name)
	}
	return claimed, nil
}

func TestTheCertificateNamesTheHost(t *testing.T) {
	ca := newAuthority(t)
	var asked atomic.Int64
	whoami := deciderFunc(func(_ context.Context, host string, _ *anypb.Any) (*anypb.Any, error) {
		asked.Add(1)
		return anypb.New(wrapperspb.String(host))
	})
	s, _ := serve(t, "127.0.0.1:0", whoami, rpcyarpc.ServerOptions{
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ca.host(t, "owner")},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool,
		},
		Identify: certified,
	})
	for _, row := range []struct {
		name string
		tls  *tls.Config
		says string // of the error, where the client is told
	}{
		{"with the host's certificate", &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ca.host(t, "me")}}, ""},
		{"with another host's certificate", &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{ca.host(t, "mallory")}}, "the certificate is of mallory"},
		{"with a stranger's certificate", &tls.Config{RootCAs: ca.pool, Certificates: []tls.Certificate{newAuthority(t).host(t, "me")}}, ""},
		{"without a certificate", &tls.Config{RootCAs: ca.pool}, ""},
		{"from a host that trusts another authority", &tls.Config{RootCAs: newAuthority(t).pool, Certificates: []tls.Certificate{ca.host(t, "me")}}, "unknown authority"},
		{"in plain text", nil, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			before := asked.Load()
			c := newClient(t, rpcyarpc.ClientOptions{TLS: row.tls})
			answer, err := call(t, c, s.Addr().String(), word(t, "x"), time.Second)
			if row.name == "with the host's certificate" {
				var host wrapperspb.StringValue
				if err != nil || answer.UnmarshalTo(&host) != nil || host.GetValue() != "me" {
					t.Errorf("%q, %v", host.GetValue(), err)
				}
				return
			}
			if asked.Load() != before {
				t.Error("the decider was asked")
			}
			if err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, want %q", err, row.says)
			}
		})
	}
}
