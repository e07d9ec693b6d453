// SPDX-License-Identifier: Apache-2.0

package rpcyarpc_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

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
	ca := certtest.New(t)
	var asked atomic.Int64
	whoami := rpc.DeciderFunc(func(_ context.Context, host string, _ *anypb.Any) (*anypb.Any, error) {
		asked.Add(1)
		return anypb.New(wrapperspb.String(host))
	})
	s, _ := serve(t, "127.0.0.1:0", whoami, rpcyarpc.ServerOptions{
		TLS: &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ca.Issue(t, "owner", certtest.Loopback)},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
		},
		Identify: certified,
	})
	for _, row := range []struct {
		name string
		tls  *tls.Config
		says string // of the error, where the client is told
	}{
		{"with the host's certificate", &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Issue(t, "me")}}, ""},
		{"with another host's certificate", &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{ca.Issue(t, "mallory")}}, "the certificate is of mallory"},
		{"with a stranger's certificate", &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{certtest.New(t).Issue(t, "me")}}, ""},
		{"without a certificate", &tls.Config{RootCAs: ca.Pool()}, ""},
		{"from a host that trusts another authority", &tls.Config{RootCAs: certtest.New(t).Pool(), Certificates: []tls.Certificate{ca.Issue(t, "me")}}, "unknown authority"},
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
