// SPDX-License-Identifier: Apache-2.0

package adminclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/admin/api/versions"
)

// Store is the database of limits that a decider has. The decider says who the author of a
// change is.
type Store struct{ *Client }

var (
	_ history.Store = Store{}
	_ history.Trier = Store{}
)

// Append implements history.Store.
func (s Store) Append(ctx context.Context, c history.Change) (history.Version, error) {
	done, err := s.put(ctx, c, url.Values{"message": {c.Message}})
	return history.Version{Number: done.Version, Text: c.Text, Message: c.Message, Fingerprint: done.Fingerprint}, err
}

// Try implements history.Trier.
func (s Store) Try(ctx context.Context, c history.Change) error {
	_, err := s.put(ctx, c, url.Values{"message": {c.Message}, "dry_run": {"true"}})
	return err
}

// put sends c with query.
func (s Store) put(ctx context.Context, c history.Change, query url.Values) (done versions.Outcome, err error) {
	err = s.Ask(ctx, http.MethodPut, "/v1/limits?"+query.Encode(), c.Text, &done, "If-Match", strconv.Quote(versions.Tag(c.Base, c.Seen)))
	return done, problem(err, c.Base)
}

// Newest implements history.Store.
func (s Store) Newest(ctx context.Context) (history.Version, error) {
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
func (s Store) Get(ctx context.Context, number int64) (history.Version, error) {
	var v versions.Version
	err := problem(s.Ask(ctx, http.MethodGet, fmt.Sprintf("/v1/limits/history/%d", number), "", &v), 0)
	if errors.Is(err, history.ErrNoVersion) {
		err = fmt.Errorf("version %d: %w", number, err)
	}
	return versionOf(v), err
}

// List implements history.Store.
func (s Store) List(ctx context.Context, before int64, n int) ([]history.Version, error) {
	var page struct {
		Versions []versions.Version `json:"versions"`
	}
	query := url.Values{"before": {strconv.FormatInt(before, 10)}, "n": {strconv.Itoa(min(n, 1000))}}
	if err := s.Ask(ctx, http.MethodGet, "/v1/limits/history?"+query.Encode(), "", &page); err != nil {
		return nil, problem(err, 0)
	}
	var found []history.Version
	for _, v := range page.Versions {
		found = append(found, versionOf(v))
	}
	return found, nil
}

// Prune implements history.Store.
func (s Store) Prune(context.Context, int) (int64, error) {
	return 0, errors.New("prune the database itself: name it with --limits-db")
}

// Notify implements history.Store. It never calls the function.
func (s Store) Notify(ctx context.Context, _ func()) { <-ctx.Done() }

// Load implements dynamicconfig.Source, which no command uses.
func (s Store) Load(ctx context.Context) (*dynamicconfig.Snapshot, error) {
	return history.NewSource(s, 0).Load(ctx)
}

// Watch implements dynamicconfig.Source.
func (s Store) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	return history.NewSource(s, 0).Watch(ctx, update)
}

// Close implements io.Closer.
func (s Store) Close() error { return nil }

func versionOf(v versions.Version) history.Version {
	return history.Version{Number: v.Number, Text: v.Text, Author: v.Author, Message: v.Message, Time: v.Time, Fingerprint: v.Fingerprint, Damaged: v.Damaged}
}

// problem returns err as other stores would have it. base is the version that a change was made
// from.
func problem(err error, base int64) error {
	p, ok := errors.AsType[*reply.Problem](err)
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

// Final reports whether err is the decider's answer to a change, which stays the same when the
// change is sent again.
func Final(err error) bool {
	if _, ok := errors.AsType[*history.Conflict](err); ok {
		return true
	}
	p, ok := errors.AsType[*reply.Problem](err)
	return ok && p.Status < http.StatusInternalServerError && p.Status != http.StatusTooManyRequests
}
