// SPDX-License-Identifier: Apache-2.0

// Package grpcconns puts the connections of a gRPC server under the limits of
// package conns, encrypted or not:
//
//	grpc.NewServer(grpc.Creds(grpcconns.Limited(credentials.NewTLS(config))))
//
// The server accepts from a conns.Listener. Out of scope: what the limits are.
package grpcconns

import (
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/headgate/headgate/internal/conns"
)

// Limited returns c with the limits of the conns.Listener that a connection comes
// from. Without TLS, c is insecure.NewCredentials().
func Limited(c credentials.TransportCredentials) credentials.TransportCredentials {
	return limited{c}
}

type limited struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (c limited) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	text, info, err := c.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return text, info, err
	}
	return conns.Inspect(raw, text), info, nil
}

// Clone implements credentials.TransportCredentials.
func (c limited) Clone() credentials.TransportCredentials {
	return limited{c.TransportCredentials.Clone()}
}
