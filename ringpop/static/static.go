// SPDX-License-Identifier: Apache-2.0

package static

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate/ringpop"
)

// Members is a list of hosts that never changes. It is safe for concurrent
// use. The zero Members has no hosts.
type Members struct {
	hosts []ringpop.Host
}

var _ ringpop.Members = (*Members)(nil)

// New returns the list of these hosts. Its errors are those of ringpop.ValidateMembers.
func New(hosts ...ringpop.Host) (*Members, error) {
	if err := ringpop.ValidateMembers(hosts); err != nil {
		return nil, fmt.Errorf("static members: %w", err)
	}
	return &Members{hosts: slices.Clone(hosts)}, nil
}

// Watch calls update once, and waits until ctx ends.
func (m *Members) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	if ctx.Err() != nil {
		return nil
	}
	update(slices.Clone(m.hosts))
	<-ctx.Done()
	return nil
}
