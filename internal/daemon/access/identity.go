// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/rpc"
)

// Credentials returns credentials that talk as others do, TLS or plain text, to all but
// programs of this machine, who come by a Unix socket. log is told whose handshake failed.
func Credentials(others credentials.TransportCredentials, log *slog.Logger) credentials.TransportCredentials {
	return doorCredentials{others, log}
}

type doorCredentials struct {
	credentials.TransportCredentials

	log *slog.Logger
}

// ServerHandshake implements credentials.TransportCredentials.
func (c doorCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	if conn.LocalAddr().Network() == "unix" {
		return conn, local{uid: uidOf(conn)}, nil
	}
	text, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err != nil && !errors.Is(err, io.EOF) { // a check of the port says nothing, and leaves
		c.log.Warn("TLS handshake error", "from", conn.RemoteAddr(), "error", err)
	}
	return text, info, err
}

// local is the AuthInfo of a program of this machine.
type local struct {
	credentials.CommonAuthInfo

	uid *uint32 // of its process; nil: the system does not say
}

// AuthType implements credentials.AuthInfo.
func (local) AuthType() string { return "unix" }

// Clone implements credentials.TransportCredentials.
func (c doorCredentials) Clone() credentials.TransportCredentials {
	return doorCredentials{c.TransportCredentials.Clone(), c.log}
}

// errNameless: a certificate that has no name.
var errNameless = errors.New("the certificate has no name: give it a common name, or a DNS or URI name")

// Identity says who calls: the caller of the policy, or else what its certificate says,
// which never are the same, whatever their names. False if it showed nothing, as at a Unix
// socket, or where nothing is asked for.
func Identity(ctx context.Context) (string, bool) {
	if name := callers.From(ctx).Name(); name != "" {
		return "caller " + name, true
	}
	name, ok := certificate(ctx)
	return "certificate " + name, ok
}

// certificate is the name in the certificate of who calls; false if it showed none.
func certificate(ctx context.Context) (string, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", false
	}
	return callers.Certified(&info.State)
}

// Identify names the host that calls: what it says, and its identity, so that no one is
// taken for a host with another one.
func Identify(ctx context.Context, claimed string) (string, error) {
	if name, ok := certificate(ctx); ok && name == "" && callers.From(ctx).Name() == "" {
		return "", errNameless
	}
	name, ok := Identity(ctx)
	switch {
	case !ok && strings.Contains(claimed, `@"`):
		return "", fmt.Errorf("a host name with @ and a quote is for programs with certificates or tokens: call it otherwise than %q", claimed)
	case !ok:
		return claimed, nil
	}
	host := claimed + "@" + strconv.Quote(name)
	if len(host) > rpc.MaxKeyLength {
		return "", fmt.Errorf("the host's name and its identity have %d bytes: use at most %d", len(host), rpc.MaxKeyLength)
	}
	return host, nil
}
