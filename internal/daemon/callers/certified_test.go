// SPDX-License-Identifier: Apache-2.0

package callers

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/url"
	"testing"
)

func TestCertified(t *testing.T) {
	shown := func(c x509.Certificate) *tls.ConnectionState {
		return &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&c}}}
	}
	uri := []*url.URL{{Scheme: "spiffe", Host: "a", Path: "/b"}}
	for name, tt := range map[string]struct {
		connection *tls.ConnectionState
		want       string
		ok         bool
	}{
		"no TLS":         {nil, "", false},
		"no certificate": {new(tls.ConnectionState), "", false},
		"common name":    {shown(x509.Certificate{Subject: pkix.Name{CommonName: "a"}, URIs: uri, DNSNames: []string{"c"}}), "a", true},
		"URI":            {shown(x509.Certificate{URIs: uri, DNSNames: []string{"c"}}), "spiffe://a/b", true},
		"DNS":            {shown(x509.Certificate{DNSNames: []string{"c", "d"}}), "c", true},
		"no name":        {shown(x509.Certificate{}), "", true},
	} {
		if got, ok := Certified(tt.connection); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, ok, tt.want, tt.ok)
		}
	}
}
