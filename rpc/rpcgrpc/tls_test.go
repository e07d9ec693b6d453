// SPDX-License-Identifier: Apache-2.0

package rpcgrpc_test

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

func TestACertificateIsForTheHostOfItsAddress(t *testing.T) {
	authority := certtest.New(t)
	cert := authority.Issue(t, "localhost")
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
		c, err := rpcgrpc.NewClient([]string{tc.host + ":" + ports[0], tc.host + ":" + ports[1]}, rpcgrpc.ClientOptions{TLS: &tls.Config{RootCAs: authority.Pool()}})
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
