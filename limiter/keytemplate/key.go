// SPDX-License-Identifier: Apache-2.0

package keytemplate

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
)

// Key is the key of a request with these attributes; the function tells the
// value of one, and whether there is one. The error is ErrMissing or
// ErrNoAddress, with the name.
func (t *Template) Key(attribute func(name string) (value string, ok bool)) (string, error) {
	key, err := t.AppendKey(make([]byte, 0, 64), attribute)
	return string(key), err
}

// AppendKey is Key that appends to key. On error, key is returned as it was.
func (t *Template) AppendKey(key []byte, attribute func(name string) (value string, ok bool)) ([]byte, error) {
	before := len(key)
	for i := range t.parts {
		p := &t.parts[i]
		key = append(key, p.literal...)
		if p.name == "" {
			continue
		}
		value, ok := attribute(p.name)
		switch {
		case !ok && p.optional:
			key = append(key, missing...)
		case !ok:
			return key[:before], fmt.Errorf("key template %q: {%s}: %w", t.text, p.name, ErrMissing)
		case p.address:
			if key, ok = p.appendNetwork(key, value); !ok {
				return key[:before], fmt.Errorf("key template %q: {%s}: %w", t.text, p.name, ErrNoAddress)
			}
		default:
			key = appendValue(key, value)
		}
	}
	return key, nil
}

// What begins with % and no two digits is no value's.
const (
	missing = "%-"
	hashed  = "%h"
)

// appendValue escapes value, or hashes it if it is too long then.
func appendValue(key []byte, value string) []byte {
	before := len(key)
	for i := 0; i < len(value) && len(key)-before <= maxValue; i++ {
		if c := value[i]; plain(c) {
			key = append(key, c)
		} else {
			key = append(key, '%', digits[c>>4], digits[c&15])
		}
	}
	if len(key)-before <= maxValue {
		return key
	}
	sum := sha256.Sum256([]byte(value))
	key = append(key[:before], hashed...)
	return base64.RawURLEncoding.AppendEncode(key, sum[:16])
}

const digits = "0123456789ABCDEF"

// plain tells whether c stands for itself.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || strings.IndexByte("._-@+=~/,", c) >= 0
}

// appendNetwork appends the one that the address is in, written without a `:`.
func (p *part) appendNetwork(key []byte, value string) ([]byte, bool) {
	addr, err := netip.ParseAddr(value)
	if err != nil {
		withPort, err := netip.ParseAddrPort(value)
		if err != nil {
			return key, false
		}
		addr = withPort.Addr()
	}
	addr = addr.Unmap().WithZone("")
	bits := p.bits[0]
	if addr.Is6() {
		bits = p.bits[1]
	}
	before := len(key)
	if bits == addr.BitLen() {
		key = addr.AppendTo(key)
	} else {
		network, err := addr.Prefix(bits)
		if err != nil {
			return key, false
		}
		key = network.AppendTo(key)
	}
	for i := before; i < len(key); i++ {
		if key[i] == ':' {
			key[i] = '-'
		}
	}
	return key, true
}
