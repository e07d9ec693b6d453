// SPDX-License-Identifier: Apache-2.0

// Package access says who comes in at the doors of a daemon, and which keys they may use:
// by certificates, tokens, and users of this machine, as a policy has them.
//
//	a, err := access.Open(access.Config{Policy: "policy.yaml"}, log)
//	grpc.NewServer(grpc.ChainUnaryInterceptor(a.Call), grpc.Creds(access.Credentials(secure, log)))
//	handler = a.Wrap(handler)
//	…
//	a.Close()
//
// Its files are followed while they change.
//
// Out of scope: what a policy says (package callers), what a certificate must be (package
// certs), and what is served.
package access
