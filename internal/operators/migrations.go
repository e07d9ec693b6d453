// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/headgate/headgate/internal/admin/api/migrate"
	"github.com/headgate/headgate/limiter/stage"
)

// askCompared is the question how keys under migration differ.
const askCompared = "compared"

// maxCompared is how many keys a member reports.
const maxCompared = 10_000

// ownCompared answers a member that asks how keys under migration differ.
func (d *Desk) ownCompared(context.Context, []byte) (any, error) { return d.compared(), nil }

// compared is how the keys of d under migration were answered, those first that differ most. The others, and
// those that are not in use any more, are in one row for each rule, without a key.
func (d *Desk) compared() []migrate.Compared {
	limits, group := d.node.Limits().Current(), d.node.Group()
	migrates := false
	for rule := range limits.Each() {
		migrates = migrates || rule.Migration != nil
	}
	if !migrates {
		return nil
	}
	var all []migrate.Compared
	for _, key := range group.Keys() {
		rule, ok := limits.Match(key)
		if !ok || rule.Migration == nil {
			continue
		}
		if status, live := group.Inspect(key); live {
			all = append(all, migrate.Compared{Divergence: status.Divergence, Key: status.Key, Rule: rule.Key, Host: d.address})
		}
	}
	slices.SortFunc(all, func(a, b migrate.Compared) int {
		return cmp.Or(cmp.Compare(b.OnlyOld+b.OnlyNew, a.OnlyOld+a.OnlyNew), strings.Compare(a.Key, b.Key))
	})
	all = all[:min(len(all), maxCompared)]
	listed := make(map[string]stage.Divergence) // by rule
	for _, c := range all {
		listed[c.Rule] = listed[c.Rule].Plus(c.Divergence)
	}
	group.Compared(func(rule string, of stage.Divergence) {
		rest := of.Since(listed[rule])
		rest = stage.Divergence{Both: max(rest.Both, 0), OnlyOld: max(rest.OnlyOld, 0), OnlyNew: max(rest.OnlyNew, 0), Neither: max(rest.Neither, 0), Skipped: max(rest.Skipped, 0)}
		all = append(all, migrate.Compared{Divergence: rest, Rule: rule, Host: d.address})
	})
	return all
}

// compare asks all members.
func (d *Desk) compare(ctx context.Context) (all []migrate.Compared, silent []string) {
	var mu sync.Mutex
	d.node.AskAll(ctx, func(ctx context.Context, host string, ask func(context.Context, string, []byte, any) error) {
		var rows []migrate.Compared
		err := ask(ctx, askCompared, nil, &rows)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			silent = append(silent, host)
		}
		all = append(all, rows...)
	})
	return all, silent
}
