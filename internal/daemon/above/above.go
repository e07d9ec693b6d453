// SPDX-License-Identifier: Apache-2.0

// Package above asks the cluster above for leases of keys, in headgate's protocol or in Doorman's,
// and logs when that cluster falls silent, when it answers again, and what it refuses.
//
//	parent, err := above.New(above.Config{Addresses: edges, Name: "eu"}, log)
//	node, err := headgate.New(config, source, members, headgate.WithParent(parent.Name(), parent))
//	defer parent.Close()
//
// Out of scope: what is done with leases (aggregator/parent), and the protocols themselves. One
// lock guards whether the cluster above answers.
package above

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	clusterabove "github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/daemon/certs"
	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// Protocols in which the cluster above is asked.
const (
	// Headgate is that of another headgate's edge.
	Headgate = "headgate"
	// Doorman is that of a Doorman server: GetServerCapacity.
	Doorman = "doorman"
)

// timeout bounds one call to the cluster above. One that hangs holds up the claims of
// all keys for so long.
const timeout = 2 * time.Second

// Config says where the cluster above is.
type Config struct {
	// Addresses are edges of the cluster above, any of which answers for all keys.
	Addresses []string
	// Protocol is Headgate or Doorman; default Headgate.
	Protocol string
	// Name is what this cluster is called above.
	Name string
	// CA is a file with the authorities of its certificate, read by New; default none, and
	// it is asked in plain text.
	CA string
	// Own is the certificate that it is shown, if it is asked over TLS; may be nil.
	Own *certs.Certificates
}

// TLS is how the cluster above is asked; nil for plain text.
func (c Config) TLS() (*tls.Config, error) {
	if c.CA == "" {
		return nil, nil
	}
	text, err := filewatch.Read(c.CA, maxAuthorities)
	if err != nil {
		return nil, fmt.Errorf("parent: tls: %w", err)
	}
	pool, err := certs.Authorities(string(text))
	if err != nil {
		return nil, fmt.Errorf("parent: tls: %s: %w", c.CA, err)
	}
	t := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	if c.Own != nil {
		t.GetClientCertificate = c.Own.Client
	}
	return t, nil
}

// maxAuthorities bounds the file of authorities, in bytes.
const maxAuthorities = 1 << 20

// Check warns of rules that say they have a parent where there is none,
// and of a parent without such rules.
func (c Config) Check(limits *dynamicconfig.Snapshot, log *slog.Logger) {
	if len(c.Addresses) == 0 {
		clusterabove.WarnOfNone(limits, log)
	}
	c.CheckAsked(limits, log)
}

// CheckAsked warns of a parent that no rule names. A Node warns of rules that name a parent
// where there is none.
func (c Config) CheckAsked(limits *dynamicconfig.Snapshot, log *slog.Logger) {
	if _, asked := clusterabove.Named(limits); !asked && len(c.Addresses) > 0 {
		log.Warn("no rule says `parent: true`: the cluster above is never asked", "parent", strings.Join(c.Addresses, ","))
	}
}

// Cluster is the cluster above. Use New. It is safe for concurrent use.
type Cluster struct {
	claims clusterabove.Claiming
	close  func() error
	name   string // what this one is called above
	where  string
	log    *slog.Logger
	shown  func(key string) string // of the limits in force

	mu       sync.Mutex // protects following fields
	silence  error      // why it does not answer; nil: it does
	grumbled time.Time  // when a refused claim was last logged
}

// New returns the cluster above. It connects in the background.
func New(c Config, log *slog.Logger) (*Cluster, error) {
	secure, err := c.TLS()
	if err != nil {
		return nil, err
	}
	p := &Cluster{name: c.Name, where: strings.Join(c.Addresses, ","), log: log, shown: hidden}
	if c.Protocol == Doorman {
		upstream, err := doorman.NewUpstream(c.Addresses, doorman.UpstreamOptions{Timeout: timeout, TLS: secure})
		if err != nil {
			return nil, err
		}
		p.claims, p.close = upstream, upstream.Close
		return p, nil
	}
	client, err := rpcgrpc.NewClient(c.Addresses, rpcgrpc.ClientOptions{TLS: secure})
	if err != nil {
		return nil, err
	}
	// No linked host, client or server downstream has a name like that.
	p.name = "cluster/" + c.Name
	edges := anyEdge{p.where, client}
	p.claims = &claims.Claimant{Host: p.name, Placement: edges, Peers: edges, Timeout: timeout}
	p.close = client.Close
	return p, nil
}

// hidden shows nothing of a key.
func hidden(string) string { return "#" }

// Name is what this cluster is called above.
func (p *Cluster) Name() string { return p.name }

// Show says how the log shows a key. Call it before the first Claim. Default not at all.
func (p *Cluster) Show(shown func(key string) string) { p.shown = shown }

// Close hangs up.
func (p *Cluster) Close() error { return p.close() }

// anyEdge is the edges of a cluster as the one owner of all keys.
type anyEdge struct {
	name    string
	decider rpc.Decider
}

func (e anyEdge) Owner(string) string { return e.name }

func (e anyEdge) Peer(string) (rpc.Decider, error) { return e.decider, nil }

// Claim implements clusterabove.Claiming.
func (p *Cluster) Claim(ctx context.Context, asked *claims.Claims) (*claims.Leases, []error) {
	leases, errs := p.claims.Claim(ctx, asked)
	if ctx.Err() == nil {
		p.tell(time.Now(), asked, leases, errs)
	}
	return leases, errs
}

// grumbleEvery is how often refused claims are logged.
const grumbleEvery = time.Minute

// tell logs what has changed with this answer.
func (p *Cluster) tell(now time.Time, asked *claims.Claims, leases *claims.Leases, errs []error) {
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

// Err is why the cluster above does not answer; nil if it does, or was not asked yet.
func (p *Cluster) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()

	if p.silence == nil {
		return nil
	}
	return fmt.Errorf("the cluster above at %s does not answer, and its leases go on until they end: %w", p.where, p.silence)
}
