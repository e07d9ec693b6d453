// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/aggregator/keyed"
)

// request is what a host says about a key, and response what the key's owner answers.
type (
	request  struct{ Cost int64 }
	response struct{ Yours bool }
)

// holder is what the owner keeps for a key: the host that has it, and when it used the
// key last.
type holder struct {
	host string
	used time.Time
}

// keep is how long a host has a key that it does not use.
const keep = 2 * time.Second

// firstCome is "first come, first served": the first host that uses a key has all
// of its limit, until it has not used the key for some time.
var firstCome = keyed.Payload[request, response, holder]{
	Type: "example.com/first-come",
	Ask:  func(u keyed.Use) request { return request{u.Allowed + u.Rejected} },
	Decide: func(now time.Time, host string, h *holder, r request) response {
		if r.Cost > 0 && (h.host == host || now.Sub(h.used) > keep) {
			*h = holder{host, now}
		}
		return response{h.host == host}
	},
	Grant: func(r response) keyed.Grant {
		if !r.Yours {
			return keyed.Grant{Lease: keep}
		}
		return keyed.Grant{Weight: 1, Burst: 10, Lease: keep}
	},
}

// payload is firstCome for one node.
func payload() headgate.Payload {
	return headgate.Payload{TypeURL: firstCome.Type, Codec: firstCome.Codec(), Owner: firstCome.Owner()}
}
