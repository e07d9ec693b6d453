// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"

	"github.com/headgate/headgate/internal/daemon/above"
	"github.com/headgate/headgate/internal/daemon/certs"
	"github.com/headgate/headgate/internal/daemon/dialled"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// clusterName is what a cluster may be called above.
var clusterName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}$`)

// validateParent returns all that is wrong with what c says of the cluster above.
func (c Config) validateParent() error {
	if len(c.Parent) == 0 {
		if c.Cluster != "" && len(c.Gossip.Seeds) == 0 || c.ParentProtocol != "" || c.ParentCA != "" {
			return mistaken(errors.New("a cluster's name, or a parent's protocol or authority, but no parent: say where the cluster above is"), "cluster", "parent-protocol", "parent-ca")
		}
		return nil
	}
	var errs []error
	for i, address := range c.Parent {
		if err := dialled.Check(address, 7934); err != nil {
			errs = append(errs, mistaken(fmt.Errorf("parent: %w", err), "parent"))
		}
		if slices.Contains(c.Parent[:i], address) {
			errs = append(errs, mistaken(fmt.Errorf("parent %q stands twice", address), "parent"))
		}
	}
	if len(c.Parent) > rpcgrpc.MaxAddresses {
		errs = append(errs, mistaken(fmt.Errorf("%d parents: list at most %d; any of them answers for all keys", len(c.Parent), rpcgrpc.MaxAddresses), "parent"))
	}
	if !clusterName.MatchString(c.Cluster) {
		errs = append(errs, mistaken(fmt.Errorf("cluster %q: with a parent, name this cluster: the same on all its deciders, unlike all others below that parent, of letters, digits, dot, dash and _", c.Cluster), "cluster"))
	}
	if !slices.Contains([]string{"", above.Headgate, above.Doorman}, c.ParentProtocol) {
		errs = append(errs, mistaken(fmt.Errorf("parent protocol %q: say %s or %s", c.ParentProtocol, above.Headgate, above.Doorman), "parent-protocol"))
	}
	return errors.Join(errs...)
}

// parent is where the cluster above of c is.
func (c Config) parent() above.Config {
	return above.Config{Addresses: c.Parent, Protocol: c.ParentProtocol, Name: c.Cluster, CA: c.ParentCA}
}

// above returns the cluster above of c, whose own edge is at edge; nil if there
// is none. It is shown own, which may be nil.
func (c Config) above(edge string, own *certs.Certificates, log *slog.Logger) (*above.Cluster, error) {
	if len(c.Parent) == 0 {
		return nil, nil
	}
	if slices.Contains(c.Parent, edge) {
		return nil, fmt.Errorf("parent %s is this decider's own edge: name the edge of the cluster above", edge)
	}
	of := c.parent()
	of.Own = own
	return above.New(of, log)
}
