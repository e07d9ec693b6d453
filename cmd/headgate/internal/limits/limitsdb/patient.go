// SPDX-License-Identifier: Apache-2.0

package limitsdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon"
)

// dbTimeout bounds how long a command waits for one answer of a database of limits.
const dbTimeout = 30 * time.Second

// patientDB gives a database a time for each answer. A command may wait longer between two
// answers, for a person whom it asks.
type patientDB struct {
	daemon.LimitsDB
	within time.Duration // 0: a decider, whose client has a time of its own
}

func (p patientDB) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if p.within == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, p.within)
}

var (
	_ history.Store = patientDB{}
	_ history.Trier = patientDB{}
)

// Append implements history.Store.
func (p patientDB) Append(ctx context.Context, c history.Change) (history.Version, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.LimitsDB.Append(ctx, c)
}

// Try implements history.Trier. A database that cannot say takes each change.
func (p patientDB) Try(ctx context.Context, c history.Change) error {
	t, ok := p.LimitsDB.(history.Trier)
	if !ok {
		return nil
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return t.Try(ctx, c)
}

// Newest implements history.Store.
func (p patientDB) Newest(ctx context.Context) (history.Version, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.LimitsDB.Newest(ctx)
}

// Get implements history.Store.
func (p patientDB) Get(ctx context.Context, number int64) (history.Version, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	v, err := p.LimitsDB.Get(ctx, number)
	if errors.Is(err, history.ErrNoVersion) {
		err = fmt.Errorf("%w: headgate limits history lists the versions that are there", err)
	}
	return v, err
}

// List implements history.Store.
func (p patientDB) List(ctx context.Context, before int64, n int) ([]history.Version, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.LimitsDB.List(ctx, before, n)
}

// Prune implements history.Store.
func (p patientDB) Prune(ctx context.Context, keep int) (int64, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	return p.LimitsDB.Prune(ctx, keep)
}
