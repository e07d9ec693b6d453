// SPDX-License-Identifier: Apache-2.0

package callers

import "strings"

// noToken is what no policy has: no field of a request has a zero byte.
const noToken = "\x00"

// Bearer is the token in the Authorization fields of a request; empty if there are none. A field of
// another scheme, without a token, or beside another one is a token that no policy has: its sender
// must not count as one that shows nothing.
func Bearer(fields []string) string {
	switch len(fields) {
	case 0:
		return ""
	case 1:
		scheme, token, _ := strings.Cut(fields[0], " ")
		if token = strings.TrimSpace(token); strings.EqualFold(scheme, "bearer") && token != "" {
			return token
		}
	}
	return noToken
}
