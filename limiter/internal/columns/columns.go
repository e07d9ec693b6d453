// SPDX-License-Identifier: Apache-2.0

// Package columns is the memory of reports of usage. Columns grow as rows come, and the next
// report takes them again. Columns that say nothing are left out of a report.
//
//	c.Begin(false)
//	c.Fit(8)
//	c.Keys[0], c.Allowed[0] = "k", 1 // and so on
//	c.SetWants(0, 5)
//	report := c.First(1)
//
// The package does not know where the figures come from.
package columns

import (
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Columns are those of one report at a time, with room for rows to come.
type Columns struct {
	usage.Report

	wants  bool // some row says what the host wants
	costs  bool // rows say what their events cost
	costly bool // some event cost more than 1
	slots  bool // some row has slots in flight
}

// Begin begins a report in the memory of the one before. costs says that the rows say what
// their events cost and what the host wants.
func (c *Columns) Begin(costs bool) {
	if !c.costly {
		c.Cost = nil
	}
	*c = Columns{Report: c.Report, wants: costs, costs: costs}
}

// Wanted reports whether rows say what the host wants.
func (c *Columns) Wanted() bool { return c.wants }

// Costs reports whether rows say what their events cost.
func (c *Columns) Costs() bool { return c.costs }

// Fit makes room for n rows.
func (c *Columns) Fit(n int) {
	c.Keys = sized(c.Keys, n)
	c.Allowed, c.Rejected = sized(c.Allowed, n), sized(c.Rejected, n)
	c.Elapsed, c.Weight = sized(c.Elapsed, n), sized(c.Weight, n)
	if c.wants {
		c.Wants = sized(c.Wants, n)
	}
	if c.costly {
		c.Cost = sized(c.Cost, n)
	}
	if c.slots {
		c.Slots = sized(c.Slots, n)
	}
}

// sized is column with n rows at least.
func sized[E any](column []E, n int) []E {
	if len(column) >= n {
		return column
	}
	return append(make([]E, 0, n), column...)[:n]
}

// First is a report of the first n rows. An earlier report may have left keys beyond them:
// First forgets these.
func (c *Columns) First(n int) usage.Report {
	clear(c.Keys[n:])
	r := usage.Report{
		Keys: c.Keys[:n], Allowed: c.Allowed[:n], Rejected: c.Rejected[:n],
		Elapsed: c.Elapsed[:n], Weight: c.Weight[:n],
	}
	if c.wants {
		r.Wants = c.Wants[:n]
	}
	if c.costly {
		r.Cost = c.Cost[:n]
	}
	if c.slots {
		r.Slots = c.Slots[:n]
	}
	return r
}

// SetCost notes what an event of row i, the newest, cost, at least 1. While all events cost 1, there
// is no column of costs.
func (c *Columns) SetCost(i int, cost float64) {
	if !c.costly {
		if cost <= 1 {
			return
		}
		c.costly, c.Cost = true, sized(c.Cost, len(c.Keys))
		for j := range i {
			c.Cost[j] = 1
		}
	}
	c.Cost[i] = cost
}

// CostOf is what an event of row i cost.
func (c *Columns) CostOf(i int) float64 {
	if !c.costly {
		return 1
	}
	return c.Cost[i]
}

// SetSlots notes how many slots row i, the newest, has. Rows that say nothing have 0.
func (c *Columns) SetSlots(i int, slots int64) {
	if !c.slots {
		c.slots, c.Slots = true, sized(c.Slots, len(c.Keys))
		clear(c.Slots)
	}
	c.Slots[i] = min(slots, rpc.MaxCount-1) + 1
}

// SetWants notes what row i, the newest, wants. Rows before it that say nothing
// get what follows from their counts.
func (c *Columns) SetWants(i int, wants float64) {
	if !c.wants {
		c.wants, c.Wants = true, sized(c.Wants, len(c.Keys))
		for j := range i {
			seconds := max(c.Elapsed[j].Seconds(), 1)
			c.Wants[j] = float64(c.Allowed[j]+c.Rejected[j]) / seconds
		}
	}
	c.Wants[i] = wants
	if c.costly {
		c.Cost[i] = 1
	}
}
