// SPDX-License-Identifier: Apache-2.0

// Package health leaves hosts that do not answer out of a ring whose list
// others keep: a fixed list, a file, or DNS.
//
//	members := health.New(listed, health.Config{Self: address, Ping: ping})
//	err := live.Run(ctx, members, nil)
//
// Package headgate does that with WithHealth.
//
// A host that has not answered for Config.After is left out of the ring here, and is
// back with its first answer. Each host asks for itself. So after a host has died
// or is back, two rings may differ for as long as Config.After, which is the bound
// for a host that some of the others reach and some do not, too: then rings differ for as long
// as that lasts. A host that is lost more than twice in two minutes waits before it is
// back: 5 seconds, then 10, 20, and at most 30.
//
// A host that leaves, as Config.Leaving says, is off its own ring at once, and off those of the others
// with their next ping. It goes on to answer.
//
// A host that loses more others at once than it still reaches takes itself for one on the
// smaller side of a split: it logs an error, and Members.Missing says how many. The last host of
// two takes over.
//
// Every host asks every other, four times a second by default, and at most 200 hosts in a
// second: with more than 50 hosts, each is asked less often, and missed later in proportion. Package
// gossip is cheaper then.
//
// Out of scope: finding hosts, and what a ping is. One lock guards what was heard of each host.
package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/internal/roster"
)

// Defaults of Config.
const (
	DefaultInterval = 250 * time.Millisecond
	DefaultAfter    = 1500 * time.Millisecond

	// MostPings is how many pings a host sends each second, of however many hosts.
	MostPings = 200

	// GreetEvery is the time between two pings of a host's own address.
	GreetEvery = time.Minute
)

// Config is how hosts are asked.
type Config struct {
	// Self is this host's address. It is asked every GreetEvery, and its answers do not matter:
	// if another process answers there, that process hears of this one.
	Self string

	// Ping returns nil if the host at address answers before ctx ends, and an error that wraps
	// ErrLeaves if it answers that it leaves. It is called for several hosts at a time. Required.
	Ping func(ctx context.Context, address string) error

	// Leaving is closed when this host is about to stop. Answers to the Pings of others have to say so.
	// Default nil: others miss this host when it has stopped.
	Leaving <-chan struct{}

	// Interval is the time between two pings of one host; default DefaultInterval. It is
	// longer with so many hosts that this host would send more than MostPings each second.
	Interval time.Duration

	// After is how long a host does not answer before it is left out; default
	// DefaultAfter, and longer in proportion where Interval is.
	After time.Duration

	// Logger is where to log; default slog.Default().
	Logger *slog.Logger
}

// ErrLeaves is wrapped in the error of a Ping of a host that leaves.
var ErrLeaves = errors.New("the host says that it leaves")

// Told is a list that is told which of its hosts do not answer. Those hosts may live, and take themselves for owners of keys:
// ringpop/gossip notifies them.
type Told interface {
	ringpop.Members

	// Silent says whether the host at address is left out because it does not answer, whenever that changes, and
	// when this host begins to ask it.
	Silent(address string, silent bool)
}

// Members is a list without the hosts that do not answer. It is safe for
// concurrent use. Use New.
type Members struct {
	listed ringpop.Members
	config Config

	stretch atomic.Uint64 // float64 bits: how many times longer Interval and After are; at least 1

	mu    sync.Mutex    // protects board
	board *roster.Board // of the last Watch; nil before
}

var _ ringpop.Split = (*Members)(nil)

// New returns the members in listed that answer.
func New(listed ringpop.Members, c Config) *Members {
	c.Interval, c.After = cmp.Or(c.Interval, DefaultInterval), cmp.Or(c.After, DefaultAfter)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return &Members{listed: listed, config: c}
}

// Standings returns what this host knows of each listed host, sorted by
// address. There are none before Watch.
func (m *Members) Standings() []ringpop.Standing {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.board == nil {
		return nil
	}
	return m.board.Standings()
}

// Missing implements ringpop.Split. It counts those that the list itself misses, too.
func (m *Members) Missing() int {
	m.mu.Lock()
	defer m.mu.Unlock()

	if m.board == nil {
		return 0
	}
	return m.board.Missing()
}

// Watch implements ringpop.Members. It pings while it runs; a host that is new on the list
// counts as one that has just answered.
func (m *Members) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	board := roster.NewBoard(m.config.Self, m.config.Logger)
	m.mu.Lock()
	m.board = board
	m.mu.Unlock()

	ctx, stop := context.WithCancel(ctx)
	failed := make(chan error, 1)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		defer stop()
		failed <- m.follow(ctx, board)
	})
	running.Go(func() {
		select {
		case <-m.config.Leaving:
			board.Left(m.config.Self)
		case <-ctx.Done():
		}
	})
	if err := board.Watch(ctx, update); err != nil {
		return err
	}
	return <-failed
}

// leaves reports whether this host is about to stop.
func (m *Members) leaves() bool {
	select {
	case <-m.config.Leaving:
		return true
	default:
		return false
	}
}

// pace is how often a host is pinged now, and after what silence it is left out.
func (m *Members) pace() (interval, after time.Duration) {
	stretch := math.Float64frombits(m.stretch.Load())
	return time.Duration(stretch * float64(m.config.Interval)), time.Duration(stretch * float64(m.config.After))
}

// watchListed follows the list, which may be the service's own code. A panic of that is an error.
func (m *Members) watchListed(ctx context.Context, update func(hosts []ringpop.Host)) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the list of members panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return m.listed.Watch(ctx, update)
}

// silent tells the list whether a host does not answer, if that is Told.
func (m *Members) silent(address string, silent bool) {
	if told, ok := m.listed.(Told); ok {
		told.Silent(address, silent)
	}
}

// follow pings the hosts on the list, until ctx ends.
func (m *Members) follow(ctx context.Context, board *roster.Board) error {
	pinged := make(map[ringpop.Host]context.CancelFunc)
	var running sync.WaitGroup
	err := m.watchListed(ctx, func(hosts []ringpop.Host) {
		if len(hosts) == 0 && len(pinged) > 0 { // else each host would take itself for the only one
			m.config.Logger.Error("no host is listed any more, so the list before counts: list all hosts, this one too")
			return
		}
		listed := make(map[ringpop.Host]bool)
		var addresses []string
		for _, h := range hosts {
			listed[h] = true
			addresses = append(addresses, h.Address)
		}
		for h, stop := range pinged {
			if !listed[h] {
				stop()
				delete(pinged, h)
			}
		}
		if split, ok := m.listed.(ringpop.Split); ok {
			board.Unlisted(split.Missing())
		}
		board.Keep(addresses)
		m.stretch.Store(math.Float64bits(max(float64(len(hosts))/m.config.Interval.Seconds()/MostPings, 1)))
		for _, h := range hosts {
			if pinged[h] != nil || h.Address == m.config.Self && m.leaves() {
				continue
			}
			board.Up(h, false)
			pinging, stop := context.WithCancel(ctx)
			pinged[h] = stop
			if h.Address == m.config.Self {
				running.Go(func() { m.greet(pinging) })
				continue
			}
			running.Go(func() { m.ping(pinging, h, board) })
		}
		board.Ready()
	})
	for _, stop := range pinged {
		stop()
	}
	running.Wait()
	return err
}
