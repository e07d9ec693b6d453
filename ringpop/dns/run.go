// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate/ringpop"
)

// Watch implements ringpop.Members. It calls update first when a lookup has found hosts.
func (m *Members) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	tick := time.NewTicker(m.config.Interval)
	defer tick.Stop()
	var last []string
	logged := ""
	for ctx.Err() == nil {
		found, err := m.Lookup(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if logged != "" {
				logged = ""
				m.config.Logger.Info("members are found again", "name", m.target, "hosts", len(found))
			}
			if !slices.Equal(found, last) {
				last = found
				hosts := make([]ringpop.Host, len(found))
				for i, address := range found {
					hosts[i].Address = address
				}
				update(hosts)
			}
		case err.Error() != logged:
			logged = err.Error()
			m.config.Logger.Error("members cannot be looked up, the last good list stays", "error", err, "hosts", len(last))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return nil
}
