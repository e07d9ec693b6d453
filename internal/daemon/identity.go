// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/rpc"
)

// doorCredentials talk TLS, or plain text, to all but programs of this machine, who come
// by a Unix socket.
type doorCredentials struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (c doorCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if conn.LocalAddr().Network() == "unix" {
		return conn, local{uid: uidOf(conn)}, nil
	}
	return c.TransportCredentials.ServerHandshake(conn)
}

// local is the AuthInfo of a program of this machine.
type local struct {
	credentials.CommonAuthInfo

	uid *uint32 // of its process; nil: the system does not tell
}

// AuthType implements credentials.AuthInfo.
func (local) AuthType() string { return "unix" }

// Clone implements credentials.TransportCredentials.
func (c doorCredentials) Clone() credentials.TransportCredentials {
	return doorCredentials{c.TransportCredentials.Clone()}
}

// errNameless: a certificate that says nobody's name.
var errNameless = errors.New("the certificate has no name: give it a common name, or a DNS or URI name")

// identity is the name of who calls: that of the policy, or in its certificate; false if
// it showed nothing, as at a Unix socket, or where nothing is asked for.
func identity(ctx context.Context) (string, bool) {
	if name := callers.From(ctx).Name(); name != "" {
		return name, true
	}
	return certificate(ctx)
}

// certificate is the name in the certificate of who calls; false if it showed none.
func certificate(ctx context.Context) (string, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return "", false
	}
	return nameOf(info.State.VerifiedChains[0][0]), true
}

// nameOf is the first name in a certificate, or empty.
func nameOf(c *x509.Certificate) string {
	switch {
	case c.Subject.CommonName != "":
		return c.Subject.CommonName
	case len(c.URIs) > 0:
		return c.URIs[0].String()
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	}
	return ""
}

// identify names the host that calls: what it says, and its identity, so that nobody is
// taken for a host with another one.
func identify(ctx context.Context, claimed string) (string, error) {
	name, ok := identity(ctx)
	switch {
	case !ok && strings.Contains(claimed, `@"`):
		return "", fmt.Errorf("a host name with @ and a quote is for programs with certificates or tokens: call it otherwise than %q", claimed)
	case !ok:
		return claimed, nil
	case name == "":
		return "", errNameless
	}
	host := claimed + "@" + strconv.Quote(name)
	if len(host) > rpc.MaxKeyLength {
		return "", fmt.Errorf("the host's name and that of its certificate have %d bytes: use at most %d", len(host), rpc.MaxKeyLength)
	}
	return host, nil
}
