// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
)

// source has the attributes of a request.
type source struct {
	r *http.Request
	o *Options
}

// sources keeps the memory of sources.
var sources = sync.Pool{New: func() any { return new(source) }}

// Attribute implements keys.Source.
func (s *source) Attribute(name, arg string) string {
	switch name {
	case "method":
		return s.r.Method
	case "path":
		return s.r.URL.Path
	case "route":
		if s.o.Route != nil {
			return s.o.Route(s.r)
		}
		_, path, found := strings.Cut(s.r.Pattern, " ")
		if !found {
			path = s.r.Pattern
		}
		return path
	case "header":
		if http.CanonicalHeaderKey(arg) == "Host" {
			return s.r.Host
		}
		return s.r.Header.Get(arg)
	case "ip":
		return s.address()
	case "user":
		if s.o.User != nil {
			return s.o.User(s.r)
		}
	}
	return ""
}

// address is that of who calls: the connection's, or, if that is a trusted
// proxy's, the last in X-Forwarded-For that is none. Those before it are only
// what a client says.
func (s *source) address() string {
	text := s.r.RemoteAddr
	at, err := parseAddress(text)
	if err == nil {
		text = at.String()
	}
	if len(s.o.TrustedProxies) == 0 && !s.o.TrustUnixSocket {
		return text
	}
	trusted := s.trusted(at) || s.o.TrustUnixSocket && s.atUnixSocket()
	forwarded := strings.Split(strings.Join(s.r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(forwarded) - 1; i >= 0 && trusted; i-- {
		entry := strings.TrimSpace(forwarded[i])
		if entry == "" { // which lists of header fields may have
			continue
		}
		before, err := parseAddress(entry)
		if err != nil {
			break
		}
		text, trusted = before.String(), s.trusted(before)
	}
	return text
}

// parseAddress reads an address as proxies write it: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1] or [2001:db8::1]:80.
func parseAddress(text string) (netip.Addr, error) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap(), nil
	}
	if len(text) > 2 && text[0] == '[' && text[len(text)-1] == ']' {
		text = text[1 : len(text)-1]
	}
	a, err := netip.ParseAddr(text)
	return a.Unmap(), err
}

// trusted reports whether a is one of a trusted proxy; the zero Addr is not.
func (s *source) trusted(a netip.Addr) bool {
	for _, p := range s.o.TrustedProxies {
		if p.Contains(a.WithZone("")) {
			return true
		}
	}
	return false
}

// atUnixSocket reports whether the request came by a Unix socket.
func (s *source) atUnixSocket() bool {
	at, ok := s.r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && at.Network() == "unix"
}
