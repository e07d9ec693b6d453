// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// retry is how long notify waits before it connects again. The store polls meanwhile.
	retry = time.Second
	// connectTimeout bounds one attempt to connect.
	connectTimeout = 5 * time.Second
)

// notify calls changed after each notification, and after it has connected, until ctx ends.
func (s *server) notify(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		s.listen(ctx, changed)
		select {
		case <-ctx.Done():
		case <-time.After(retry):
		}
	}
}

// listen does so until the connection is lost.
func (s *server) listen(ctx context.Context, changed func()) {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c, err := pgx.ConnectConfig(connecting, s.config)
	if err != nil {
		return // the store's next poll says why
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	if _, err := c.Exec(connecting, "LISTEN "+channel); err != nil {
		return
	}
	for {
		changed()
		if _, err := c.WaitForNotification(ctx); err != nil {
			return
		}
	}
}
