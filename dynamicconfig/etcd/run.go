// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// retry is how long Notify waits before it watches again. The store polls meanwhile.
const retry = time.Second

// Notify implements history.Store.
func (s *Store) Notify(ctx context.Context, changed func()) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() {
		for ctx.Err() == nil {
			s.watch(ctx, changed)
			select {
			case <-ctx.Done():
			case <-time.After(retry):
			}
		}
	})
	s.bell.Listen(ctx, changed)
}

// watch calls changed after each change of the newest version, until the watch is lost.
func (s *Store) watch(ctx context.Context, changed func()) {
	c, err := s.open()
	if err != nil {
		return // the store's next poll says why
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for range c.Watch(ctx, s.newestKey(), clientv3.WithCreatedNotify()) {
		changed()
	}
}
