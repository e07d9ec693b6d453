// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api"
)

// adminStore is the database of limits of a decider, which is asked and told at its address
// for operators. The decider says who the author of a change is.
type adminStore struct{ *caller }

var _ history.Store = adminStore{}

// Append implements history.Store.
func (s adminStore) Append(ctx context.Context, c history.Change) (history.Version, error) {
	var done api.Outcome
	query := url.Values{"message": {c.Message}}
	err := s.ask(ctx, http.MethodPut, "/v1/limits?"+query.Encode(), c.Text, &done, "If-Match", strconv.Quote(strconv.FormatInt(c.Base, 10)))
	return history.Version{Number: done.Version, Text: c.Text, Message: c.Message}, problem(err, c.Base)
}

// Newest implements history.Store.
func (s adminStore) Newest(ctx context.Context) (history.Version, error) {
	found, err := s.List(ctx, 0, 1)
	if err == nil && len(found) == 0 {
		err = history.ErrEmpty
	}
	if err != nil {
		return history.Version{}, err
	}
	return found[0], nil
}

// Get implements history.Store.
func (s adminStore) Get(ctx context.Context, number int64) (history.Version, error) {
	var v api.Version
	err := problem(s.ask(ctx, http.MethodGet, fmt.Sprintf("/v1/limits/history/%d", number), "", &v), 0)
	if errors.Is(err, history.ErrNoVersion) {
		err = fmt.Errorf("version %d: %w", number, err)
	}
	return versionOf(v), err
}

// List implements history.Store.
func (s adminStore) List(ctx context.Context, before int64, n int) ([]history.Version, error) {
	var page struct {
		Versions []api.Version `json:"versions"`
	}
	query := url.Values{"before": {strconv.FormatInt(before, 10)}, "n": {strconv.Itoa(min(n, 1000))}}
	if err := s.ask(ctx, http.MethodGet, "/v1/limits/history?"+query.Encode(), "", &page); err != nil {
		return nil, problem(err, 0)
	}
	var found []history.Version
	for _, v := range page.Versions {
		found = append(found, versionOf(v))
	}
	return found, nil
}

// Prune implements history.Store.
func (s adminStore) Prune(context.Context, int) (int64, error) {
	return 0, errors.New("prune the database itself: name it with --limits-db")
}

// Notify implements history.Store: it tells of nothing.
func (s adminStore) Notify(ctx context.Context, _ func()) { <-ctx.Done() }

// Load and Watch implement dynamicconfig.Source, which no command uses.
func (s adminStore) Load(ctx context.Context) (*dynamicconfig.Snapshot, error) {
	return history.NewSource(s, 0).Load(ctx)
}

// Watch implements dynamicconfig.Source.
func (s adminStore) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	return history.NewSource(s, 0).Watch(ctx, update)
}

// Close implements io.Closer.
func (s adminStore) Close() error { return nil }

func versionOf(v api.Version) history.Version {
	return history.Version{Number: v.Number, Text: v.Text, Author: v.Author, Message: v.Message, Time: v.Time, Fingerprint: v.Fingerprint}
}

// problem is err, of a change on top of version base, as stores have it.
func problem(err error, base int64) error {
	p, ok := errors.AsType[*api.Problem](err)
	switch {
	case !ok:
		return err
	case p.Status == http.StatusPreconditionFailed:
		return &history.Conflict{Base: base, Newest: p.Newest}
	case p.Status == http.StatusNotFound:
		return history.ErrNoVersion
	}
	return err
}
