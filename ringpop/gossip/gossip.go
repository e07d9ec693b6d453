// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log" //nolint:depguard // memberlist takes no other
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/internal/roster"
)

// Config is what a Members must know.
type Config struct {
	// Cluster is the name of the cluster, of 1 to 255 bytes. Hosts of clusters
	// with different names never join. Required.
	Cluster string

	// Host is this host. Its Address is where other hosts call it, not where it
	// gossips. Identity and Labels have at most 255 bytes each, and 500 together. Address
	// is required.
	Host ringpop.Host

	// Observer is set for a host that owns no keys. It knows the ring, and is
	// not on it.
	Observer bool

	// Listen is where to gossip, host:port, TCP and UDP; port 0 takes a free one. Required.
	Listen string

	// Advertise is where others gossip with this host, host:port; default
	// Listen, with the host of Host.Address if Listen is all addresses.
	Advertise string

	// Seeds are asked for the other hosts. Nil: this host waits for others to
	// join it.
	Seeds Seeds

	// KeyFile is a file of keys in base64, one a line, the same on all hosts.
	// What hosts say is encrypted with the first, and read with any. The
	// file is read again as it changes. "": no encryption.
	KeyFile string

	// JoinWithin is how long Start tries to find a seed that answers, before
	// this host begins alone; default DefaultJoinWithin.
	JoinWithin time.Duration

	// Rejoin is how often seeds that are not members are asked; default DefaultRejoin.
	Rejoin time.Duration

	// Logger is where to log; default slog.Default().
	Logger *slog.Logger
}

// Defaults of Config.
const (
	DefaultJoinWithin = 5 * time.Second
	DefaultRejoin     = 5 * time.Second
)

// Validate returns all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if len(c.Cluster) == 0 || len(c.Cluster) > memberlist.LabelMaxSize {
		errs = append(errs, fmt.Errorf("gossip: the cluster's name has %d bytes: give all hosts one name of 1 to %d", len(c.Cluster), memberlist.LabelMaxSize))
	}
	if err := checkMember(c.Host); err != nil {
		errs = append(errs, fmt.Errorf("gossip: this host's address or labels: %w", err))
	}
	if _, port, err := net.SplitHostPort(c.Listen); err != nil || port == "" {
		errs = append(errs, fmt.Errorf("gossip: listen %q is not host:port: write it as in 10.0.0.7:7946", c.Listen))
	}
	if c.Advertise != "" {
		if err := dialable(c.Advertise); err != nil {
			errs = append(errs, fmt.Errorf("gossip: advertise: %w", err))
		}
	}
	if c.JoinWithin < 0 || c.Rejoin < 0 {
		errs = append(errs, errors.New("gossip: a time is negative: use 0 for the default"))
	}
	leaving := c.meta()
	leaving.Leaving = true // which is all that a host may say
	_, err := leaving.encode()
	return errors.Join(append(errs, err)...)
}

func (c Config) meta() meta {
	return meta{Identity: c.Host.Identity, Labels: c.Host.Labels, Observer: c.Observer}
}

// latch is closed once.
type latch struct {
	once sync.Once
	set  chan struct{}
}

// Members is the membership of one host, from Start to Stop. It is safe for
// concurrent use. Use New.
type Members struct {
	config  Config
	log     *slog.Logger
	board   *roster.Board
	keys    *memberlist.Keyring // nil without KeyFile
	leaving atomic.Bool
	watched latch         // with the first Watch
	moved   chan struct{} // others may know this host at an address of its last run

	list *memberlist.Memberlist // set by Start
	own  string                 // where this host gossips, as others see it
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex          // protects there
	there map[string]struct{} // where the members gossip

	lines quotas
}

var _ ringpop.Split = (*Members)(nil)

// New returns a Members that is not yet started.
func New(c Config) (*Members, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.JoinWithin, c.Rejoin = cmp.Or(c.JoinWithin, DefaultJoinWithin), cmp.Or(c.Rejoin, DefaultRejoin)
	m := &Members{
		config: c, log: c.Logger, there: make(map[string]struct{}), moved: make(chan struct{}, 1),
		watched: latch{set: make(chan struct{})}, lines: newQuotas(),
	}
	if m.log == nil {
		m.log = slog.Default()
	}
	m.board = roster.NewBoard(c.Host.Address, m.log)
	if c.KeyFile != "" {
		keys, err := readKeys(c.KeyFile)
		if err != nil {
			return nil, err
		}
		if m.keys, err = memberlist.NewKeyring(keys, keys[0]); err != nil {
			return nil, fmt.Errorf("gossip: keys: %w", err)
		}
	}
	return m, nil
}

// Start listens, and joins the cluster. It returns when a seed has answered, or when none
// has within Config.JoinWithin: then the host begins alone, and goes on asking. It
// returns an error when the host cannot listen, or ctx ends. After an
// error, nothing runs. Call it once.
func (m *Members) Start(ctx context.Context) error {
	config, err := m.memberlist(ctx)
	if err != nil {
		return err
	}
	transport, err := listen(net.ParseIP(config.BindAddr), config.BindPort, m.config.Cluster, m.log)
	if err != nil {
		return fmt.Errorf("gossip: listen at %s: %w", m.config.Listen, err)
	}
	config.Transport, config.BindPort = transport, transport.port()
	if config.AdvertisePort == 0 {
		config.AdvertisePort = config.BindPort
	}
	m.own = net.JoinHostPort(config.AdvertiseAddr, strconv.Itoa(config.AdvertisePort)) // others may join from here on
	if m.list, err = memberlist.Create(config); err != nil {
		return errors.Join(fmt.Errorf("gossip: listen at %s: %w", m.config.Listen, err), transport.Shutdown())
	}
	running, stop := context.WithCancel(context.Background())
	m.stop = stop
	if err := m.joinFirst(ctx); err != nil {
		return errors.Join(err, m.Stop())
	}
	m.board.Ready()
	m.done.Go(func() { m.rejoin(running) })
	m.done.Go(func() { m.begin(running) })
	m.done.Go(func() { m.board.FollowWaiting(running, m.tell) })
	if m.keys != nil {
		m.done.Go(func() { m.followKeys(running) })
	}
	return nil
}

// Where failures are noticed. A host is probed by another about every
// probeInterval. It is suspected when it has not answered by the next, and is dead when it
// has not refuted that for suspicion times probeInterval, times the logarithm of the hosts
// to the base of 10 if there are more than 10. That is 1.25 s at most for 10 hosts and 2 s for 100.
const (
	probeInterval = 250 * time.Millisecond
	probeTimeout  = 150 * time.Millisecond
	suspicion     = 3
)

// pushPull is how often each host sends another all that it knows.
var pushPull = 15 * time.Second // a variable for tests

// memberlist is m's config as memberlist wants it.
func (m *Members) memberlist(ctx context.Context) (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	c.Name = m.config.Host.Address
	c.Label = m.config.Cluster
	c.Keyring = m.keys
	c.Delegate = (*delegate)(m)
	c.Events = (*delegate)(m)
	c.Conflict = (*delegate)(m)
	c.Merge = (*delegate)(m)
	c.EnableCompression = false
	c.Logger = log.New(logWriter{m.log, &m.lines.said}, "", 0)

	c.ProbeInterval, c.ProbeTimeout, c.SuspicionMult = probeInterval, probeTimeout, suspicion
	c.SuspicionMaxTimeoutMult = 1
	c.AwarenessMaxMultiplier = 2
	c.GossipInterval = 50 * time.Millisecond
	c.PushPullInterval = pushPull
	c.TCPTimeout = 2 * time.Second
	c.DeadNodeReclaimTime = time.Second

	host, port, err := m.listenAt(ctx, m.config.Listen)
	if err != nil {
		return nil, err
	}
	c.BindAddr, c.BindPort = host.String(), port
	advertise := m.config.Advertise
	if advertise == "" && host.IsUnspecified() {
		name, _, _ := net.SplitHostPort(m.config.Host.Address)
		advertise = net.JoinHostPort(name, strconv.Itoa(port))
	}
	if advertise != "" {
		if host, port, err = m.listenAt(ctx, advertise); err != nil {
			return nil, err
		}
	}
	c.AdvertiseAddr, c.AdvertisePort = host.String(), port
	return c, nil
}

// listenAt looks up address. No host is all of them.
func (m *Members) listenAt(ctx context.Context, address string) (net.IP, int, error) {
	at, port, _ := net.SplitHostPort(address)
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: address %q: %w", address, err)
	}
	if at == "" {
		return net.IPv4zero, number, nil
	}
	found, err := net.DefaultResolver.LookupIPAddr(ctx, at)
	if err != nil {
		return nil, 0, fmt.Errorf("gossip: address %q does not resolve: name this host as others dial it: %w", address, err)
	}
	return found[0].IP, number, nil
}

// Address is where this host gossips, as other hosts dial it. It is valid after Start.
func (m *Members) Address() string { return m.own }

// Watch implements ringpop.Members. It calls update first when Start has joined. From the first Watch on this
// host owns keys: a host that does not watch the ring yet does not serve others.
func (m *Members) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	m.watched.once.Do(func() {
		close(m.watched.set)
		if !m.config.Observer && !m.leaving.Load() {
			m.board.Up(m.config.Host, false)
		}
	})
	return m.board.Watch(ctx, update)
}

// owns reports whether this host may own keys.
func (m *Members) owns() bool {
	select {
	case <-m.watched.set:
		return !m.config.Observer
	default:
		return false
	}
}

// begin notifies the other hosts when this one may own keys.
func (m *Members) begin(ctx context.Context) {
	select {
	case <-m.watched.set:
		m.tell()
	case <-ctx.Done():
	}
}

// Missing implements ringpop.Split.
func (m *Members) Missing() int { return m.board.Missing() }

// Silent implements health.Told: the other hosts are notified, and a host that most others get no answer of owns no keys by
// its own ring either.
func (m *Members) Silent(address string, silent bool) { m.board.Silent(address, silent) }

// Standings returns what this host knows of each member, sorted by address.
func (m *Members) Standings() []ringpop.Standing { return m.board.Standings() }

// Leave notifies the other hosts that this one leaves: it is off their ring at
// once, and off its own. It goes on to know them until Stop. Leave returns
// when the others were notified, or after a second. Without Start, Leave does nothing.
func (m *Members) Leave() error {
	if m.list == nil || m.leaving.Swap(true) {
		return nil
	}
	m.board.Left(m.config.Host.Address)
	if err := errors.Join(m.list.UpdateNode(time.Second/2), m.list.Leave(time.Second/2)); err != nil {
		return fmt.Errorf("gossip: notify others that this host leaves: %w", err)
	}
	return nil
}

// tell notifies the other hosts of what this one says of itself. It does not wait until they have received it.
func (m *Members) tell() {
	if !m.leaving.Load() {
		_ = m.list.UpdateNode(time.Nanosecond)
	}
}

// Stop ends everything and notifies no host; see Leave. It returns
// when nothing of it runs any more. Without Start, Stop does nothing.
func (m *Members) Stop() error {
	if m.list == nil {
		return nil
	}
	m.stop()
	err := m.list.Shutdown()
	m.done.Wait()
	return err
}

// note keeps where members gossip.
func (m *Members) note(n *memberlist.Node, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	if there {
		m.there[n.Address()] = struct{}{}
	} else {
		delete(m.there, n.Address())
	}
}

// delegate is how memberlist calls a Members. Its calls hold memberlist's lock: nothing
// here may wait, or call back.
type delegate Members

// NodeMeta is what this host says of itself.
func (d *delegate) NodeMeta(int) []byte {
	own := d.config.meta()
	own.Leaving = d.leaving.Load()
	own.Observer = own.Observer || !own.Leaving && !(*Members)(d).owns() // one of both is as long as Validate allows
	b, err := own.withWaiting(d.board.Waiting()).encode()
	if err != nil { // Validate has made sure that it is not too long
		return nil
	}
	return b
}

// NotifyJoin notes that a host is there.
func (d *delegate) NotifyJoin(n *memberlist.Node) {
	(*Members)(d).note(n, true)
	said, err := decodeMeta(n.Meta)
	host := ringpop.Host{Address: n.Name, Identity: said.Identity, Labels: said.Labels}
	if err == nil {
		err = checkMember(host)
	}
	if err != nil {
		d.board.Down(n.Name, err.Error()) // if it could be read before
		if withheld, ok := d.lines.unfit.admit(time.Now()); ok {
			d.log.Warn("a host of the cluster is not on the ring", "member", clip(n.Name), "gossip", n.Address(), "error", err, "withheld", withheld)
		}
		return
	}
	if said.Leaving {
		d.board.Left(n.Name)
		return
	}
	if n.Name == d.config.Host.Address {
		said.Observer = !(*Members)(d).owns() // it may have changed since this host said so
	}
	d.board.Up(host, said.Observer)
	d.board.Holds(n.Name, said.Waiting.has(d.config.Host.Address))
}

// NotifyUpdate notes that a host says something else of itself.
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.NotifyJoin(n) }

// NotifyLeave notes that a host is gone. One that said so before is not reported twice.
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	(*Members)(d).note(n, false)
	if said, err := decodeMeta(n.Meta); err == nil && said.Leaving || n.Name == d.config.Host.Address {
		d.board.Left(n.Name)
		return
	}
	d.board.Down(n.Name, "no answer to probes, and no denial")
}

// NotifyConflict reports that two processes have one address. They are in conflict until
// one of them ends.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name == d.config.Host.Address {
		d.move()
	}
	if withheld, ok := d.lines.conflicts.admit(time.Now()); ok {
		d.log.Error("two hosts say that they are at one address: give each its own", "address", clip(existing.Name),
			"gossip", existing.Address(), "other", other.Address(), "withheld", withheld)
	}
}

// NotifyMerge looks at what another host knows when the two join. If it knows this host elsewhere, that is where
// the last run of this host gossiped, and was perhaps killed.
func (d *delegate) NotifyMerge(known []*memberlist.Node) error {
	for _, n := range known {
		if n.Name == d.config.Host.Address && n.Address() != d.own {
			d.move()
		}
	}
	return nil
}

// move has rejoin notify all members of where this host gossips.
func (d *delegate) move() {
	select {
	case d.moved <- struct{}{}:
	default: // one is pending
	}
}

// Nothing else is said between hosts.

// NotifyMsg implements memberlist.Delegate.
func (d *delegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (d *delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (d *delegate) MergeRemoteState([]byte, bool) {}

func clip(name string) string { return name[:min(len(name), 100)] }
