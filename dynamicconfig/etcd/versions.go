// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/headgate/headgate/dynamicconfig/history"
)

// Append implements history.Store.
func (s *Store) Append(ctx context.Context, c history.Change) (history.Version, error) {
	v, err := c.Version(now())
	if err != nil {
		return history.Version{}, err
	}
	newest, revision, err := s.newest(ctx)
	if err != nil && !errors.Is(err, history.ErrEmpty) {
		return history.Version{}, err
	}
	if !c.Fits(newest) {
		return history.Version{}, &history.Conflict{Base: c.Base, Newest: newest.Number}
	}
	data, err := encode(v)
	if err != nil {
		return history.Version{}, err
	}
	response, err := s.commit(ctx, "store the limits",
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.newestKey()), "=", revision)},
		clientv3.OpPut(s.textKey(v.Number), v.Text),
		clientv3.OpPut(s.versionKey(v.Number), data),
		clientv3.OpPut(s.newestKey(), data))
	if err != nil {
		return history.Version{}, err
	}
	if !response.Succeeded { // another came first
		newest, err := s.Newest(ctx)
		if err != nil {
			return history.Version{}, err
		}
		return history.Version{}, &history.Conflict{Base: c.Base, Newest: newest.Number}
	}
	s.bell.Ring()
	return v, nil
}

// Newest implements history.Store.
func (s *Store) Newest(ctx context.Context) (history.Version, error) {
	v, _, err := s.newest(ctx)
	return v, err
}

// newest returns the newest version, and the revision of its key; 0 if there is none.
func (s *Store) newest(ctx context.Context) (v history.Version, revision int64, err error) {
	response, err := s.do(ctx, "read the limits", clientv3.OpGet(s.newestKey()))
	if err != nil {
		return history.Version{}, 0, err
	}
	found := response.Responses[0].GetResponseRange().Kvs
	if len(found) == 0 {
		return history.Version{}, 0, fmt.Errorf("%s, keys %s/: %w", s.at(), s.prefix, history.ErrEmpty)
	}
	v, err = decode(found[0].Value)
	return v, found[0].ModRevision, err
}

// Get implements history.Store.
func (s *Store) Get(ctx context.Context, number int64) (history.Version, error) {
	response, err := s.do(ctx, "read the limits", clientv3.OpGet(s.versionKey(number)), clientv3.OpGet(s.textKey(number)))
	if err != nil {
		return history.Version{}, err
	}
	version, text := response.Responses[0].GetResponseRange().Kvs, response.Responses[1].GetResponseRange().Kvs
	if len(version) == 0 || len(text) == 0 {
		return history.Version{}, fmt.Errorf("version %d: %w", number, history.ErrNoVersion)
	}
	v, err := decode(version[0].Value)
	v.Text = string(text[0].Value)
	return v, err
}

// List implements history.Store.
func (s *Store) List(ctx context.Context, before int64, n int) (versions []history.Version, err error) {
	end := clientv3.GetPrefixRangeEnd(s.prefix + "/version/")
	if before > 0 {
		end = s.versionKey(before)
	}
	response, err := s.do(ctx, "list the versions of the limits", clientv3.OpGet(s.versionKey(0), clientv3.WithRange(end),
		clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend), clientv3.WithLimit(int64(n))))
	if err != nil {
		return nil, err
	}
	for _, found := range response.Responses[0].GetResponseRange().Kvs {
		v, err := decode(found.Value)
		if err != nil {
			return nil, err
		}
		versions = append(versions, v)
	}
	return versions, nil
}

// Prune implements history.Store.
func (s *Store) Prune(ctx context.Context, keep int) (removed int64, err error) {
	if err := history.CheckPrune(keep); err != nil {
		return 0, err
	}
	newest, err := s.Newest(ctx)
	if err != nil || newest.Number <= int64(keep) {
		return 0, err
	}
	first := newest.Number - int64(keep) + 1 // of those to keep
	response, err := s.do(ctx, "prune the versions of the limits",
		clientv3.OpDelete(s.versionKey(0), clientv3.WithRange(s.versionKey(first))),
		clientv3.OpDelete(s.textKey(0), clientv3.WithRange(s.textKey(first))))
	if err != nil {
		return 0, err
	}
	return response.Responses[0].GetResponseDeleteRange().Deleted, nil
}
