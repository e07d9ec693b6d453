// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"net"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/conns"
)

// Names of doors, which their metrics have too.
const (
	GRPC = "edge"
	HTTP = "http"
	Unix = "unix" // both
)

// Limited is l with at most so many connections, counted. The programs of a door hold less
// with unfinished requests than the hosts of a cluster, which report at once. Where they
// speak HTTP, what bodies take counts too: see holdBodies.
func Limited(l net.Listener, name string, most int, scope tally.Scope) *conns.Listener {
	door := conns.Track(l, most)
	limits := conns.DefaultLimits
	limits.Bytes, limits.TotalBytes, limits.MoreCalls = maxUnfinished, maxUnfinishedTotal, maxMoreCalls
	if name != GRPC {
		limits.TotalBytes = maxHeld
	}
	door.Limit(limits)
	door.Measure(scope.Tagged(map[string]string{"door": name}))
	return door
}
