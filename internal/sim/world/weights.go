// SPDX-License-Identifier: Apache-2.0

package world

import (
	"time"
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
		limit, _ := b.Limit()
		for h := range row {
			row[h] = c.Part(c.Hosts[h], b.Name, limit)
		}
		w.rows[i] = append(w.rows[i], row)
	}
	c.Queue.Push(c.Now+w.every, sample, 0, 0)
}
