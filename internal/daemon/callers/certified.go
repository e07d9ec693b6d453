// SPDX-License-Identifier: Apache-2.0

package callers

import "crypto/tls"

// Certified is the first name in the certificate that the other side of a connection has
// shown; empty if the certificate has no name. It returns false if there is no connection,
// or no certificate that was checked.
func Certified(connection *tls.ConnectionState) (name string, ok bool) {
	if connection == nil || len(connection.VerifiedChains) == 0 {
		return "", false
	}
	switch c := connection.VerifiedChains[0][0]; {
	case c.Subject.CommonName != "":
		return c.Subject.CommonName, true
	case len(c.URIs) > 0:
		return c.URIs[0].String(), true
	case len(c.DNSNames) > 0:
		return c.DNSNames[0], true
	}
	return "", true
}
