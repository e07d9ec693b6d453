// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"crypto/tls"
	"errors"
)

// WithTLS encrypts the calls between hosts by config, on both sides: a host
// shows its certificate when it calls and when it is called. All hosts of a
// cluster must use TLS, or none. Of WithTLS and WithRotatingTLS, the last one counts.
//
// TLS is mutual by default: if config.ClientAuth is zero, callers must have a
// certificate that ClientCAs, or RootCAs if that is nil, have signed.
//
// A host that dials another checks that the other's certificate is for the host in
// the address that it dials, or for config.ServerName if that is set. A host that is
// called does not compare the caller's certificate with the name that the caller
// reports under. So each holder of a certificate can report in any host's name.
func WithTLS(config *tls.Config) Option {
	return func(o *options) {
		server, ok := o.secured(config)
		if ok {
			o.own.Server.TLS, o.own.Client.TLS, o.own.Client.RotatingTLS = server, config.Clone(), nil
		}
	}
}

// WithRotatingTLS is WithTLS for certificates and authorities that change: current is
// called for each connection, on both sides, by several goroutines at once. Connections
// that are open stay.
func WithRotatingTLS(current func() *tls.Config) Option {
	return func(o *options) {
		if current == nil {
			o.fail("headgate: WithRotatingTLS needs a function that returns the certificates")
			return
		}
		if _, ok := o.secured(current()); !ok {
			return
		}
		o.own.Server.TLS = &tls.Config{
			MinVersion: tls.VersionTLS12,
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				if config := current(); config != nil {
					return serverSide(config), nil
				}
				return nil, errors.New("headgate: WithRotatingTLS: there is no TLS config now")
			},
		}
		o.own.Client.RotatingTLS = current
	}
}

// secured returns the server's side of config; false after what is wrong with it was
// noted.
func (o *options) secured(config *tls.Config) (server *tls.Config, ok bool) {
	if config == nil || len(config.Certificates) == 0 && config.GetCertificate == nil && config.GetConfigForClient == nil {
		o.fail("headgate: TLS needs a certificate of this host")
		return nil, false
	}
	before := len(o.errs)
	if config.InsecureSkipVerify && config.VerifyConnection == nil && config.VerifyPeerCertificate == nil {
		o.fail("headgate: TLS with InsecureSkipVerify trusts any host that answers: remove it, or set VerifyConnection")
	}
	server = serverSide(config)
	if server.ClientCAs == nil && server.GetConfigForClient == nil && server.ClientAuth >= tls.VerifyClientCertIfGiven {
		o.fail("headgate: mutual TLS needs the authority of the hosts' certificates: set RootCAs or ClientCAs")
	}
	return server, len(o.errs) == before
}

// serverSide is config for a host that is called: mutual, unless it says otherwise.
func serverSide(config *tls.Config) *tls.Config {
	server := config.Clone()
	if server.ClientAuth == tls.NoClientCert {
		server.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if server.ClientCAs == nil {
		server.ClientCAs = server.RootCAs
	}
	return server
}
