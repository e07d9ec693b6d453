// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/measure"
)

// weights looks once per second at the part of each limit that each host has.
type weights struct {
	every time.Duration
	rows  [][][]float64 // by bucket, second and host: part of the limit, 0 while down
}

// take takes one sample, and plans the next.
func (w *weights) take(c *cluster) {
	if w.rows == nil {
		w.rows = make([][][]float64, len(c.buckets))
	}
	for i, b := range c.buckets {
		row := make([]float64, len(c.sc.Hosts))
		for h := range row {
			row[h] = c.part(c.hosts[h], b)
		}
		w.rows[i] = append(w.rows[i], row)
	}
	c.queue.push(c.now+w.every, sample, 0, 0)
}

// part of b's limit that a host's bucket refills with.
func (c *cluster) part(h *host, b *measure.Bucket) float64 {
	limit, _ := b.Limit()
	if !h.up || limit == 0 {
		return 0
	}
	status, ok := h.group.InspectAt(h.local(c.now).Time(), b.Name)
	if !ok || len(status.Shares) == 0 {
		return 0
	}
	share := status.Shares[len(status.Shares)-1]
	if status.Mode == dynamicconfig.ModeOld || status.Mode == dynamicconfig.ModeOldShadowNew {
		share = status.Shares[0]
	}
	return float64(share.Level.Limit) / limit
}
