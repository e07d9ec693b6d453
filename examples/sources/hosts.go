// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/ringpop"
)

// Hosts is ringpop.Members that asks a service discovery for the addresses of all hosts.
type Hosts struct {
	Addresses func(context.Context) ([]string, error)
	Every     time.Duration // how long Watch waits before it asks again
}

// Watch calls update with the first answer, and with each that differs from the one before.
func (h Hosts) Watch(ctx context.Context, update func([]ringpop.Host)) error {
	var known []string
	for first := true; ctx.Err() == nil; pause(ctx, h.Every) {
		addresses, err := h.Addresses(ctx)
		addresses = slices.Sorted(slices.Values(addresses)) // a copy, as the discovery may go on using its list
		if err != nil || !first && slices.Equal(addresses, known) {
			continue // without an answer, the last list stays
		}
		first, known = false, addresses
		hosts := make([]ringpop.Host, len(addresses))
		for i, a := range addresses {
			hosts[i].Address = a
		}
		update(hosts)
	}
	return nil
}
