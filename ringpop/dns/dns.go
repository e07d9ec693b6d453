// SPDX-License-Identifier: Apache-2.0

// Package dns is the hosts that a DNS name stands for, such as a headless service of
// Kubernetes:
//
//	members, err := dns.New("dns:///headgate.default.svc.cluster.local:7933", dns.Config{})
//	if err != nil {
//		return err
//	}
//	err = live.Run(ctx, members, nil)
//
// The names of two kinds are:
//
//	dns:///name:port    each A and AAAA record of name is a host at that port
//	dns+srv:///name     each SRV record of name is a host: the addresses of its target, at its port,
//	                    which must not be 0
//
// The name is looked up again and again: Go's resolver does not say how long a record is
// valid. A lookup that fails, or finds no host, is logged, and the last list stays.
//
// All hosts must see the same records, and each must be among them by the address
// that its ring has for it: an IP address and a port.
//
// Out of scope: whether hosts answer (package health), and names that only some hosts know.
package dns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/ringpop"
)

const (
	// DefaultInterval is how often a name is looked up by default.
	DefaultInterval = 5 * time.Second

	// maxHosts bounds what one name may stand for.
	maxHosts = 10_000

	// lookups is how many addresses are looked up at the same time.
	lookups = 32
)

// Resolver looks names up. A *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, records []*net.SRV, err error)
}

// Config is how names are looked up. The zero Config is ready.
type Config struct {
	// Interval is the time between two lookups; default DefaultInterval. A lookup may take
	// as long.
	Interval time.Duration

	// Resolver looks names up; default net.DefaultResolver.
	Resolver Resolver

	// Logger is where to log; default slog.Default().
	Logger *slog.Logger
}

// Members is the hosts that a name stands for. It is safe for concurrent use.
// Use New.
type Members struct {
	config Config
	target string
	name   string
	port   string // "" for SRV records, which have their own
}

var _ ringpop.Members = (*Members)(nil)

// New returns the hosts of target, which is dns:///name:port or dns+srv:///name.
// It looks nothing up yet.
func New(target string, c Config) (*Members, error) {
	c.Interval = cmp.Or(c.Interval, DefaultInterval)
	if c.Interval < 0 {
		return nil, fmt.Errorf("dns: look up every %v: use 0 for the default", c.Interval)
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	m := &Members{config: c, target: target}
	if name, ok := strings.CutPrefix(target, "dns+srv:///"); ok && name != "" && !strings.ContainsAny(name, "/:") {
		m.name = name
		return m, nil
	}
	if rest, ok := strings.CutPrefix(target, "dns:///"); ok {
		name, port, err := net.SplitHostPort(rest)
		number, notNumber := strconv.ParseUint(port, 10, 16)
		if err == nil && notNumber == nil && name != "" && number > 0 {
			m.name, m.port = name, strconv.FormatUint(number, 10) // without zeros before it
			return m, nil
		}
	}
	return nil, fmt.Errorf("dns: %.200q is no name: write dns:///headgate.default.svc.cluster.local:7933, or dns+srv:///_cluster._tcp.headgate.default.svc.cluster.local", target)
}

// Is reports whether target is for this package, rather than an address.
func Is(target string) bool {
	return strings.HasPrefix(target, "dns:") || strings.HasPrefix(target, "dns+srv:")
}

var errNobody = errors.New("it names no host")

// Lookup returns the addresses of the hosts now, sorted. None is an error.
func (m *Members) Lookup(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.config.Interval)
	defer cancel()
	all, err := m.lookup(ctx)
	if err == nil && len(all) == 0 {
		err = errNobody
	}
	if err == nil && len(all) > maxHosts {
		err = fmt.Errorf("it stands for %d hosts, more than %d", len(all), maxHosts)
	}
	if err != nil {
		return nil, fmt.Errorf("dns: look up %s: %w", m.target, err)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func (m *Members) lookup(ctx context.Context) ([]string, error) {
	if m.port != "" {
		return m.addresses(ctx, m.name, m.port)
	}
	_, records, err := m.config.Resolver.LookupSRV(ctx, "", "", m.name)
	if err != nil {
		return nil, err
	}
	if len(records) > maxHosts {
		return nil, fmt.Errorf("it has %d records, more than %d", len(records), maxHosts)
	}
	all := make([][]string, len(records))
	var next atomic.Int64
	var mu sync.Mutex // guards err
	var asking sync.WaitGroup
	for range min(lookups, len(records)) {
		asking.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(records); i = int(next.Add(1)) - 1 {
				at, failed := m.at(ctx, records[i])
				if all[i] = at; failed != nil { // a list without some of its hosts would move their keys
					next.Store(int64(len(records)))
					mu.Lock()
					err = failed
					mu.Unlock()
				}
			}
		})
	}
	asking.Wait()
	return slices.Concat(all...), err
}

// at returns the addresses of the host that r is of.
func (m *Members) at(ctx context.Context, r *net.SRV) ([]string, error) {
	if r.Port == 0 {
		return nil, fmt.Errorf("its record of %s has port 0, which cannot be called", r.Target)
	}
	return m.addresses(ctx, r.Target, strconv.Itoa(int(r.Port)))
}

func (m *Members) addresses(ctx context.Context, name, port string) (all []string, err error) {
	found, err := m.config.Resolver.LookupNetIP(ctx, "ip", name)
	if err != nil {
		return nil, err
	}
	for _, ip := range found {
		all = append(all, net.JoinHostPort(ip.Unmap().String(), port))
	}
	return all, nil
}
