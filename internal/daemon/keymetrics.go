// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"

	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/internal/prometheus"
)

// tellKeys exports what desk knows of the rules, and of the keys that matter most.
func (m *metrics) tellKeys(desk *operators.Desk) error {
	if m == nil {
		return nil
	}
	keys := prometheus.NewTable("rule", "key")
	keys.Counter("key_allowed")
	keys.Counter("key_rejected")
	keys.Gauge("key_limit")
	keys.Gauge("key_utilization")
	keys.Gauge("key_weight")
	rules := prometheus.NewTable("rule")
	rules.Gauge("rule_limit")
	rules.Gauge("rule_utilization")
	return errors.Join(
		m.export.Rows(keys, func() (rows []prometheus.Row) {
			for _, k := range desk.TopKeys() {
				rows = append(rows, prometheus.Row{
					Labels: []string{k.Rule, k.Key},
					Values: []float64{k.Allowed, k.Rejected, k.Limit, k.Used, k.Weight},
				})
			}
			return rows
		}),
		m.export.Rows(rules, func() (rows []prometheus.Row) {
			for _, u := range desk.RuleUse() {
				rows = append(rows, prometheus.Row{Labels: []string{u.Rule}, Values: []float64{u.Limit, u.Used}})
			}
			return rows
		}),
	)
}
