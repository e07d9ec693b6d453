// SPDX-License-Identifier: Apache-2.0

// Package dialled checks addresses that others are to dial. It does not know what the connections
// carry.
package dialled

import (
	"context"
	"fmt"
	"net"
	"strings"
	"unicode"
)

// Check returns what keeps others from dialling address, or nil. usual is the port by default of
// such an address.
func Check(address string, usual int) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || port == "0" || strings.ContainsFunc(address, unicode.IsSpace) {
		return fmt.Errorf("address %q is not host:port as others dial it: write it as in 10.0.0.7:%d", address, usual)
	}
	if err := Port(port); err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("address %q is no host that others can dial: name this one", address)
	}
	return nil
}

// Port says what is wrong with a port, which may have a name, as in http.
func Port(port string) error {
	if _, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port); err != nil {
		return fmt.Errorf("there is no port %s: use 1 to 65535, or 0 for a free one where the daemon listens", port)
	}
	return nil
}

// Advertised says what keeps others from dialling address. Others that
// cannot be looked up now are not looked at.
func Advertised(ctx context.Context, address string, others []string) error {
	own, err := loopback(ctx, address)
	if err != nil {
		return fmt.Errorf("this decider's address %q does not resolve: give one that others can dial as --address: %w", address, err)
	}
	if !own {
		return nil
	}
	for _, other := range others {
		if there, err := loopback(ctx, other); err == nil && !there {
			return fmt.Errorf("this decider's address %q is of this machine only, and %q is elsewhere: give an address that others can dial as --address, and listen there", address, other)
		}
	}
	return nil
}

// loopback reports whether address can only be dialled on its own machine.
func loopback(ctx context.Context, address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	found, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil {
		return false, err
	}
	for _, a := range found {
		if !a.IP.IsLoopback() {
			return false, nil
		}
	}
	return true, nil
}
