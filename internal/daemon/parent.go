// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	clusterabove "github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/daemon/certs"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// Protocols in which the cluster above is asked.
const (
	// ProtocolHeadgate is that of another headgate's edge.
	ProtocolHeadgate = "headgate"
	// ProtocolDoorman is that of a Doorman server: GetServerCapacity.
	ProtocolDoorman = "doorman"
)

// parentTimeout bounds one call to the cluster above. One that hangs holds up
// the claims of all keys for so long.
const parentTimeout = 2 * time.Second

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
		if err := dialable(address); err != nil {
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
	if !slices.Contains([]string{"", ProtocolHeadgate, ProtocolDoorman}, c.ParentProtocol) {
		errs = append(errs, mistaken(fmt.Errorf("parent protocol %q: say %s or %s", c.ParentProtocol, ProtocolHeadgate, ProtocolDoorman), "parent-protocol"))
	}
	return errors.Join(errs...)
}

// parent is the cluster above. It tells the log when that falls silent and
// when it answers again.
type parent struct {
	claims  clusterabove.Claiming
	close   func() error
	cluster string // what this one is called above
	where   string
	log     *slog.Logger
	shown   func(key string) string // of the limits in force; set before the first Claim

	mu       sync.Mutex // protects following fields
	silence  error      // why it does not answer; nil: it does
	grumbled time.Time  // when a claim that was refused was last told
}

// hidden shows nothing of a key.
func hidden(string) string { return "#" }

// above returns the cluster above of c, whose own edge is at edge; nil if there
// is none. It is shown own, which may be nil. It dials in the background.
func (c Config) above(edge string, own *certs.Certificates, log *slog.Logger) (*parent, error) {
	if len(c.Parent) == 0 {
		return nil, nil
	}
	if slices.Contains(c.Parent, edge) {
		return nil, fmt.Errorf("parent %s is this decider's own edge: name the edge of the cluster above", edge)
	}
	p := &parent{cluster: c.Cluster, where: strings.Join(c.Parent, ","), log: log, shown: hidden}
	secure, err := c.parentTLS(own)
	if err != nil {
		return nil, err
	}
	if c.ParentProtocol == ProtocolDoorman {
		upstream, err := doorman.NewUpstream(c.Parent, doorman.UpstreamOptions{Timeout: parentTimeout, TLS: secure})
		if err != nil {
			return nil, err
		}
		p.claims, p.close = upstream, upstream.Close
		return p, nil
	}
	client, err := rpcgrpc.NewClient(c.Parent, rpcgrpc.ClientOptions{TLS: secure})
	if err != nil {
		return nil, err
	}
	// No linked host, client or server downstream has a name like that.
	p.cluster = "cluster/" + c.Cluster
	edges := anyEdge{p.where, client}
	p.claims = &claims.Claimant{Host: p.cluster, Placement: edges, Peers: edges, Timeout: parentTimeout}
	p.close = client.Close
	return p, nil
}

// anyEdge is the edges of a cluster as the one owner of all keys.
type anyEdge struct {
	name    string
	decider rpc.Decider
}

func (e anyEdge) Owner(string) string { return e.name }

func (e anyEdge) Peer(string) (rpc.Decider, error) { return e.decider, nil }

// Claim implements clusterabove.Claiming.
func (p *parent) Claim(ctx context.Context, asked *claims.Claims) (*claims.Leases, []error) {
	leases, errs := p.claims.Claim(ctx, asked)
	if ctx.Err() == nil {
		p.tell(time.Now(), asked, leases, errs)
	}
	return leases, errs
}

// grumbleEvery is how often claims that are refused are told of.
const grumbleEvery = time.Minute

// tell logs what has changed with this answer.
func (p *parent) tell(now time.Time, asked *claims.Claims, leases *claims.Leases, errs []error) {
	var failed error
	answered, odd := false, -1
	for i := range asked.Rows {
		switch l := &leases.Rows[i]; {
		case errs != nil && errs[i] != nil:
			failed = errs[i]
		default:
			answered = true
			if odd < 0 && (l.Refused != "" || l.Unknown) {
				odd = i
			}
		}
	}
	p.mu.Lock()
	fell, rose := failed != nil && !answered && p.silence == nil, answered && p.silence != nil
	switch {
	case answered:
		p.silence = nil
	case failed != nil:
		p.silence = failed
	}
	grumble := odd >= 0 && (p.grumbled.IsZero() || now.Sub(p.grumbled) >= grumbleEvery)
	if grumble {
		p.grumbled = now
	}
	p.mu.Unlock()
	if fell {
		p.log.Warn("the cluster above does not answer: its leases go on until they end, then the safe capacity of its rules; it is asked again and again",
			"parent", p.where, "error", failed)
	}
	if rose {
		p.log.Info("the cluster above answers again", "parent", p.where)
	}
	if !grumble {
		return
	}
	switch key, l := asked.Rows[odd].Key, leases.Rows[odd]; {
	case l.Unknown:
		p.log.Warn("the cluster above has no rule for a key, and gives all that is asked of it: add one there, or take `parent: true` away here",
			"parent", p.where, "key", p.shown(key))
	default:
		p.log.Warn("the cluster above leases nothing of a key", "parent", p.where, "key", p.shown(key), "reason", l.Refused)
	}
}

// err is why the cluster above does not answer; nil if it does, or was not asked yet.
func (p *parent) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.silence == nil {
		return nil
	}
	return fmt.Errorf("the cluster above at %s does not answer, and its leases go on until they end: %w", p.where, p.silence)
}

// checkParents warns of rules that say they have a parent where there is none,
// and of a parent without such rules.
func (c Config) checkParents(limits *dynamicconfig.Snapshot, log *slog.Logger) {
	first := ""
	for _, rule := range limits.Rules() {
		if rule.Parent {
			first = rule.Key
			break
		}
	}
	switch {
	case first != "" && len(c.Parent) == 0:
		log.Warn("a rule says `parent: true`, but there is no parent: its keys have nothing but their safe capacity; say where the cluster above is, or take it away",
			"rule", first)
	case first == "" && len(c.Parent) > 0:
		log.Warn("no rule says `parent: true`: the cluster above is never asked", "parent", strings.Join(c.Parent, ","))
	}
}
