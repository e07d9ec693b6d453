// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
)

// cluster is the hosts and what they all share. It is for one goroutine.
type cluster struct {
	config  Config
	source  *memory.Source
	members *hosted.Members
	hosts   []*host
	notices *notices

	names sync.Map // address → name of a host, for logs of any goroutine
}

// stopTimeout is how long a host may take to end, on a machine that other programs keep busy.
const stopTimeout = 30 * time.Second

// newCluster starts all hosts. After an error, none runs.
func newCluster(ctx context.Context, config Config) (*cluster, error) {
	snapshot, err := config.snapshot()
	if err != nil {
		return nil, err
	}
	c := &cluster{config: config, source: memory.New(snapshot), notices: new(notices)}
	for i := range config.Hosts {
		h, err := newHost(ctx, fmt.Sprintf("host-%d", i+1))
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.hosts = append(c.hosts, h)
		c.names.Store(h.peers.Addr().String(), h.name)
	}
	c.members, err = hosted.New(c.list(-1)...)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	for _, h := range c.hosts {
		if err := c.start(ctx, h); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context, h *host) error {
	return h.start(ctx, c.config, c.source, c.members, handler{c.notices, h.name, c.name})
}

// list is all hosts but one, as a service discovery would have them; -1 for
// none.
func (c *cluster) list(but int) []ringpop.Host {
	var list []ringpop.Host
	for i, h := range c.hosts {
		if i != but {
			list = append(list, h.member())
		}
	}
	return list
}

// name of the host at address.
func (c *cluster) name(address string) string {
	name, _ := c.names.Load(address)
	if name, ok := name.(string); ok {
		return name
	}
	return address
}

// decider is the index of the host that decides for the first lane's key, in
// the eyes of a host that lives; -1 if that one is not known.
func (c *cluster) decider() int {
	for _, h := range c.hosts {
		if !h.running {
			continue
		}
		owner := h.node.Ring().Owner(c.config.Lanes[0].Key)
		for i := range c.hosts {
			if c.hosts[i].peers.Addr().String() == owner {
				return i
			}
		}
		return -1
	}
	return -1
}

// leave takes dead host i off the list of members. It returns the name of the
// host that decides for the first lane's key from now on.
func (c *cluster) leave(i int) (decides string, err error) {
	left := c.list(i)
	ring, err := ringpop.New(left, 0)
	if err != nil {
		return "", err
	}
	return c.name(ring.Owner(c.config.Lanes[0].Key)), c.members.Set(left)
}

// revive starts host i again, at other addresses, with nothing in its memory.
func (c *cluster) revive(ctx context.Context, i int) error {
	h, err := newHost(ctx, c.hosts[i].name)
	if err != nil {
		return err
	}
	c.hosts[i] = h
	c.names.Store(h.peers.Addr().String(), h.name)
	if err := c.members.Set(c.list(-1)); err != nil {
		return errors.Join(err, h.close())
	}
	return c.start(ctx, h)
}

// close stops all hosts that run, at the same time.
func (c *cluster) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	errs := make([]error, len(c.hosts))
	var stopping sync.WaitGroup
	for i, h := range c.hosts {
		stopping.Go(func() {
			if h.server == nil {
				_ = h.close() // it was never started; closed twice is fine
				return
			}
			errs[i] = h.stop(ctx)
		})
	}
	stopping.Wait()
	return errors.Join(errs...)
}
