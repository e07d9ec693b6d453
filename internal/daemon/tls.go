// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"

	"github.com/headgate/headgate/internal/daemon/certs"
)

// TLS names the files of certificates of listeners, in PEM. They may change at any time.
// What is broken or gone then changes nothing.
type TLS struct {
	// Cert is the certificate of the listeners, with what leads to its authority, and
	// Key its key. Both, or neither: then they speak plain text.
	Cert, Key string

	// ClientCA are authorities. Who connects needs a certificate of one of them. Its
	// name says who that is: see package callers. Default none.
	ClientCA string
}

func (t TLS) files() certs.Files { return certs.Files{Cert: t.Cert, Key: t.Key, CA: t.ClientCA} }

// ClusterTLS names the files of certificates among deciders, in PEM. They may change at
// any time. What is broken or gone then changes nothing.
type ClusterTLS struct {
	// Cert is this decider's certificate, which it shows when it calls and when it is
	// called, and Key its key. CA are the authorities of all deciders' certificates. All
	// three, or none: then deciders speak plain text.
	Cert, Key, CA string

	// Name is a DNS name that all deciders' certificates have in common, and which each
	// asks of the other's. Default none: then a decider's certificate must be for the
	// address at which others dial it, and who holds any certificate of CA may call. Then
	// CA must be for deciders alone.
	Name string
}

func (t ClusterTLS) files() certs.Files { return certs.Files{Cert: t.Cert, Key: t.Key, CA: t.CA} }

// validateTLS returns what is wrong with what c says of certificates.
func (c Config) validateTLS() error {
	errs := []error{
		mistaken(c.TLS.files().Validate("tls"), "tls-cert", "tls-key", "tls-client-ca"),
		mistaken(c.AdminTLS.files().Validate("admin tls"), "admin-cert", "admin-key", "admin-client-ca"),
		mistaken(c.ClusterTLS.files().Validate("cluster tls"), "cluster-cert", "cluster-key", "cluster-ca"),
	}
	if c.ClusterTLS.Cert != "" && c.ClusterTLS.CA == "" {
		errs = append(errs, mistaken(errors.New("cluster tls: deciders check each other: name the file with the authorities of their certificates"), "cluster-ca", "cluster-cert"))
	}
	if c.ClusterTLS.Name != "" && c.ClusterTLS.Cert == "" {
		errs = append(errs, mistaken(errors.New("cluster tls: a name that certificates have, and no certificate: name its files"), "cluster-name"))
	}
	if c.Admin == "" && c.Operators != "" {
		errs = append(errs, mistaken(errors.New("operators need an address to call: give admin one, or leave operators out"), "operators"))
	}
	if c.Admin == "" && c.AdminTLS != (TLS{}) {
		errs = append(errs, mistaken(errors.New("admin tls: a certificate for operators, and no address for them: give one, or take the certificate away"), "admin-cert", "admin-key", "admin-client-ca"))
	}
	return errors.Join(errs...)
}
