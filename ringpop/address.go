// SPDX-License-Identifier: Apache-2.0

package ringpop

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unicode"
)

// CheckAddress returns why other hosts cannot call address, which errors call name.
func CheckAddress(name, address string) error {
	host, port, err := SplitAddress(name, address)
	if err != nil {
		return err
	}
	if ip, err := netip.ParseAddr(host); host == "" || port == 0 || err == nil && ip.IsUnspecified() {
		return fmt.Errorf("%s %q is not one that other hosts can call: write it as in 10.0.0.7:7933", name, address)
	}
	return nil
}

// SplitAddress returns the host and the port of address, which errors call name. The host may be
// empty.
func SplitAddress(name, address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil || text == "" || strings.ContainsFunc(address, unicode.IsSpace) {
		return "", 0, fmt.Errorf("%s %q is not host:port: write it as in 10.0.0.7:7933", name, address)
	}
	if port, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", text); err != nil {
		return "", 0, fmt.Errorf("%s %q has no port from 0 to 65535: write it as in 10.0.0.7:7933", name, address)
	}
	return host, port, nil
}
