// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/rpc"
)

// A program without an identity cannot take the name of a host that has one.
func TestNobodyTakesTheNameOfACertificate(t *testing.T) {
	for _, claimed := range []string{`me@"certificate orders"`, `me@"caller orders"`} {
		if host, err := Identify(t.Context(), claimed); err == nil {
			t.Errorf("it is taken for %s", host)
		}
	}
}

// A caller of the policy is not the program whose certificate has the same name, which
// the policy may not even know.
func TestACallerIsNotACertificateOfTheSameName(t *testing.T) {
	policy, err := callers.Parse([]byte(`callers: [{name: orders, tokens: ["` + callers.Hash("secret") + `"], use: ["*"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	orders, err := policy.Who(callers.Proof{Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	a := certtest.New(t)
	hosts := make(map[string]string)
	for who, ctx := range map[string]context.Context{
		"the caller":                          callers.With(t.Context(), orders),
		"a certificate":                       certified(t, a, "orders"),
		"a certificate named like the caller": certified(t, a, "caller orders"),
	} {
		host, err := Identify(ctx, "me")
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := hosts[host]; taken {
			t.Errorf("%s and %s are both %s", who, other, host)
		}
		hosts[host] = who
	}
}

// certified is the context of a call by who has a certificate.
func certified(t *testing.T, a *certtest.Authority, name string) context.Context {
	t.Helper()
	info := credentials.TLSInfo{State: tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{a.Issue(t, name).Leaf}}}}
	return peer.NewContext(t.Context(), &peer.Peer{AuthInfo: info})
}

// A host is called what it says, and by its identity.
func TestTheIdentityIsPartOfWhoAHostIs(t *testing.T) {
	a := certtest.New(t)
	if _, ok := Identity(t.Context()); ok {
		t.Error("nobody has an identity")
	}
	for want, name := range map[string]string{`me@"certificate orders"`: "orders", "has no name": "", "have 1": strings.Repeat("x", rpc.MaxKeyLength)} {
		host, err := Identify(certified(t, a, name), "me")
		if err != nil {
			host = err.Error()
		}
		if !strings.Contains(host, want) {
			t.Errorf("%.20s: %s", name, host)
		}
	}
	if host, err := Identify(t.Context(), "me"); err != nil || host != "me" {
		t.Errorf("without a certificate: %s, %v", host, err)
	}
}
