// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"net/netip"
	"strings"
)

// source has the attributes of a request.
type source struct {
	r *http.Request
	o *Options
}

// Attribute implements keys.Source.
func (s source) Attribute(name, arg string) string {
	switch name {
	case "method":
		return s.r.Method
	case "path":
		return s.r.URL.Path
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
// what somebody says.
func (s source) address() string {
	text := s.r.RemoteAddr
	if at, err := netip.ParseAddrPort(text); err == nil {
		text = at.Addr().Unmap().String()
	}
	if len(s.o.TrustedProxies) == 0 {
		return text
	}
	forwarded := strings.Split(strings.Join(s.r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(forwarded) - 1; i >= 0 && s.trusted(text); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(forwarded[i]))
		if err != nil {
			break
		}
		text = before.Unmap().String()
	}
	return text
}

func (s source) trusted(text string) bool {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return false
	}
	for _, p := range s.o.TrustedProxies {
		if p.Contains(a.WithZone("")) {
			return true
		}
	}
	return false
}
