// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/filewatch"
)

const (
	// tryEvery is the time between attempts of Start to join.
	tryEvery = 250 * time.Millisecond

	// lookEvery is how often the file of keys is read.
	lookEvery = time.Second

	// again is how often a host that was restarted with another gossip address says so, and says how
	// many times after the last sign that others know the earlier one: they believe it when they have
	// missed that for DeadNodeReclaimTime.
	again = time.Second
	says  = 5

	// maxSeeds bounds how many seeds are asked at once.
	maxSeeds = 32
)

// joinFirst joins by any seed, or by a host that has this one as its seed. That none answers in time is logged, and no error.
func (m *Members) joinFirst(ctx context.Context) error {
	if m.config.Seeds == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, m.config.JoinWithin)
	defer cancel()
	again := time.NewTicker(tryEvery)
	defer again.Stop()
	for {
		joined, missing, err := m.join(within, false)
		if joined || err == nil && missing == 0 || len(m.addresses()) > 1 {
			return nil
		}
		select {
		case <-again.C:
		case <-within.Done():
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("gossip: join the cluster: %w", err)
			}
			m.log.Warn("no seed answers: this host begins alone, and goes on asking; check the seeds, the cluster's name, and the keys", "error", err)
			return nil
		}
	}
}

// rejoin asks seeds that are not members, until ctx ends. Seeds that hang are given up, and
// asked again. While others may know this host at another address, it asks all seeds, and notifies all
// members where it is.
func (m *Members) rejoin(ctx context.Context) {
	if m.config.Seeds == nil {
		return
	}
	tick := time.NewTicker(m.config.Rejoin)
	defer tick.Stop()
	soon := time.NewTicker(again)
	defer soon.Stop()
	logged, left := "", 0
	for {
		unknown := false
		select {
		case <-tick.C:
		case <-m.moved:
			left = says
			continue
		case <-soon.C:
			if unknown = left > 0; !unknown {
				continue
			}
			left--
		case <-ctx.Done():
			return
		}
		if m.leaving.Load() {
			continue
		}
		within, cancel := context.WithTimeout(ctx, max(m.config.Rejoin, m.config.JoinWithin))
		_, _, err := m.join(within, unknown)
		cancel()
		if unknown {
			m.tell()
		}
		switch {
		case err == nil:
			logged = ""
		case err.Error() != logged && ctx.Err() == nil:
			logged = err.Error()
			m.log.Warn("seeds do not answer", "error", err)
		}
	}
}

// join asks the seeds that are not members, or all. It reports whether one was or is one, and how
// many were asked.
func (m *Members) join(ctx context.Context, all bool) (joined bool, missing int, err error) {
	seeds, err := m.config.Seeds(ctx)
	if err != nil {
		return false, 0, err
	}
	members := m.addresses()
	var ask []string
	var errs []error
	for _, s := range seeds {
		at, err := resolve(ctx, s)
		errs = append(errs, err)
		for _, a := range at {
			switch {
			case a == m.own || slices.Contains(ask, a):
			case slices.Contains(members, a) && !all:
				joined = true
			case len(ask) < maxSeeds:
				ask = append(ask, a)
			}
		}
	}
	var mu sync.Mutex // guards errs and joined
	var asked sync.WaitGroup
	for _, a := range ask {
		asked.Go(func() {
			_, err := m.list.Join([]string{a})
			mu.Lock()
			defer mu.Unlock()

			if err == nil {
				joined = true
			} else {
				errs = append(errs, fmt.Errorf("gossip: seed %s does not answer, or is of another cluster", a))
			}
		})
	}
	asked.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return joined, len(ask), errors.Join(errs...)
}

// addresses is where the members gossip.
func (m *Members) addresses() []string {
	m.mu.Lock()
	defer m.mu.Unlock()

	return slices.Collect(maps.Keys(m.there))
}

// resolve returns the addresses that a seed's name stands for.
func resolve(ctx context.Context, seed string) (all []string, err error) {
	if err := dialable(seed); err != nil {
		return nil, fmt.Errorf("gossip: seed: %w", err)
	}
	host, port, _ := net.SplitHostPort(seed)
	found, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("gossip: seed %q does not resolve: %w", seed, err)
	}
	for _, ip := range found {
		all = append(all, net.JoinHostPort(ip, port))
	}
	return all, nil
}

// followKeys reads the file of keys again and again, until ctx ends. Keys that
// cannot be read change nothing.
func (m *Members) followKeys(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	logged := ""
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		keys, err := readKeys(m.config.KeyFile)
		changed := false
		if err == nil {
			changed, err = rotate(m.keys, keys)
		}
		switch {
		case errors.Is(err, filewatch.ErrWriting):
		case err == nil:
			logged = ""
			if changed {
				m.log.Info("keys changed", "keys", len(keys))
			}
		case err.Error() != logged:
			logged = err.Error()
			m.log.Error("keys cannot be read, the last good ones stay", "error", err)
		}
	}
}
