// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// UpstreamOptions is the setup of an Upstream. The zero value is plain text.
type UpstreamOptions struct {
	// Timeout bounds one Claim; default claims.DefaultTimeout. A server that
	// hangs is left for the next one after a third of it.
	Timeout time.Duration

	// TLS, when not nil, encrypts.
	TLS *tls.Config

	// Now is the clock that leases on the wire are dated by; default time.Now.
	// It must not be ahead of the server's by as much as leases last.
	Now func() time.Time
}

// Upstream leases capacity from Doorman servers above, as a server downstream
// of theirs: who claims is the server_id. It asks the master, and finds it by
// what the others say. Use NewUpstream. Safe for concurrent use.
//
// A Doorman server knows no claim that only keeps what the host has: that one
// wants as much as it has. Nor can a server release: it wants nothing.
type Upstream struct {
	addresses []string
	timeout   time.Duration
	now       func() time.Time
	dial      []grpc.DialOption

	mu     sync.Mutex // protects following fields
	conns  []upstreamConn
	master string // who answered last; empty if that is not known
	next   int    // of addresses, to ask when it is not
	closed bool
}

var _ Claimer = (*Upstream)(nil)

// upstreamConn is a connection, of which there are as many as addresses and
// maxStrangers more.
type upstreamConn struct {
	address string
	conn    *grpc.ClientConn
}

const (
	// maxStrangers bounds the connections to masters that are not among the
	// addresses.
	maxStrangers = 2

	// maxRedirects bounds how often one call is sent elsewhere.
	maxRedirects = 4

	// perRequest is the most resources in one request.
	perRequest = 1024
)

// ErrNoMaster means that no server says that it is the master, nor who is.
var ErrNoMaster = errors.New("doorman: no server knows of a master: wait for their election")

// NewUpstream returns an Upstream of the servers at addresses, each a
// host:port. It dials in the background. Close ends it.
func NewUpstream(addresses []string, o UpstreamOptions) (*Upstream, error) {
	if len(addresses) == 0 {
		return nil, errors.New("doorman: no address of a server above: give one or more")
	}
	var errs []error
	for _, address := range addresses {
		errs = append(errs, checkAddress(address))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	u := &Upstream{addresses: slices.Clone(addresses), timeout: cmp.Or(max(o.Timeout, 0), claims.DefaultTimeout), now: o.Now}
	if u.now == nil {
		u.now = time.Now
	}
	secure := insecure.NewCredentials()
	if o.TLS != nil {
		secure = credentials.NewTLS(o.TLS)
	}
	u.dial = []grpc.DialOption{
		grpc.WithTransportCredentials(secure),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newPartial())),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
	}
	return u, nil
}

func checkAddress(address string) error {
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return fmt.Errorf("doorman: address %.200q of a server above is not host:port", address)
	}
	return nil
}

// Claim asks the master for a lease for each row. The errors are nil if it
// answered for all rows; otherwise each row has its own or nil. It returns when
// ctx or the Timeout ends, at the latest.
func (u *Upstream) Claim(ctx context.Context, asked *claims.Claims) (*claims.Leases, []error) {
	leases := &claims.Leases{Rows: make([]claims.Lease, len(asked.Rows))}
	errs := make([]error, len(asked.Rows))
	if err := asked.Check(); err != nil {
		return leases, slices.Repeat([]error{err}, len(errs))
	}
	ctx, cancel := context.WithTimeout(ctx, u.timeout)
	defer cancel()
	for _, rows := range split(asked) {
		if err := u.part(ctx, asked, rows, leases, errs); err != nil {
			for _, row := range rows {
				errs[row] = err
			}
		}
	}
	if cmp.Or(errs...) == nil {
		return leases, nil
	}
	return leases, errs
}

// split groups rows by host, no key twice in a group, as one request is.
func split(asked *claims.Claims) (parts [][]int) {
	type group struct {
		host string
		turn int
	}
	type row struct{ host, key string }
	turns, open := make(map[row]int), make(map[group]int)
	for i := range asked.Rows {
		c := &asked.Rows[i]
		turn := turns[row{c.Host, c.Key}]
		turns[row{c.Host, c.Key}]++
		g := group{c.Host, turn}
		at, ok := open[g]
		if !ok || len(parts[at]) == perRequest {
			at, open[g] = len(parts), len(parts)
			parts = append(parts, nil)
		}
		parts[at] = append(parts[at], i)
	}
	return parts
}

// part claims rows, which have one host. The error is that of all of them.
func (u *Upstream) part(ctx context.Context, asked *claims.Claims, rows []int, leases *claims.Leases, errs []error) error {
	now := u.now()
	request := &doormanpb.GetServerCapacityRequest{ServerId: new(asked.Rows[rows[0]].Host)}
	at := make(map[string]int, len(rows))
	for _, row := range rows {
		c := &asked.Rows[row]
		at[c.Key] = row
		request.Resource = append(request.Resource, wanted(c, now))
	}
	response, err := u.ask(ctx, request)
	if err != nil {
		return err
	}
	for _, r := range response.GetResponse() {
		row, ok := at[r.GetResourceId()]
		if !ok {
			continue // it was not asked for, or is there twice
		}
		delete(at, r.GetResourceId())
		c := &asked.Rows[row]
		if c.Release {
			continue
		}
		lease, err := given(r, clientsOf(wanted(c, now).GetWants()), now)
		if err != nil {
			errs[row] = inResource(c.Key, err)
			continue
		}
		// A client that has nothing to keep and gets nothing received no decision.
		lease.Learning = c.Keep && lease.Amount == 0
		leases.Rows[row] = lease
	}
	for id, row := range at {
		errs[row] = inResource(id, errNotAnswered)
	}
	return nil
}

var errNotAnswered = errors.New("the server above left it out of its answer")

// ask has the master answer.
func (u *Upstream) ask(ctx context.Context, request *doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
	var failed error
	address, redirects := u.first(), 0
	for range len(u.addresses) + maxRedirects {
		response, err := u.call(ctx, address, request)
		switch mastership := response.GetMastership(); {
		case ctx.Err() != nil:
			return nil, errors.Join(fmt.Errorf("doorman: ask %s: %w", address, ctx.Err()), failed)
		case status.Code(err) == codes.InvalidArgument: // others would say the same
			return nil, fmt.Errorf("doorman: ask %s: %w", address, err)
		case err != nil:
			failed = fmt.Errorf("doorman: ask %s: %w", address, err)
			address = u.another()
		case mastership == nil:
			u.found(address)
			return response, nil
		case mastership.GetMasterAddress() == "" || mastership.GetMasterAddress() == address || redirects == maxRedirects:
			failed = fmt.Errorf("%w, says %s", ErrNoMaster, address)
			address = u.another()
		default:
			if err := checkAddress(mastership.GetMasterAddress()); err != nil {
				return nil, err
			}
			address = mastership.GetMasterAddress()
			redirects++
		}
	}
	return nil, failed
}

// first is who to ask first.
func (u *Upstream) first() string {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.master != "" {
		return u.master
	}
	return u.addresses[u.next]
}

// another is who to ask after one that did not answer.
func (u *Upstream) another() string {
	u.mu.Lock()
	defer u.mu.Unlock()

	u.master = ""
	u.next = (u.next + 1) % len(u.addresses)
	return u.addresses[u.next]
}

func (u *Upstream) found(master string) {
	u.mu.Lock()
	defer u.mu.Unlock()

	u.master = master
}

func (u *Upstream) call(ctx context.Context, address string, request *doormanpb.GetServerCapacityRequest) (*doormanpb.GetServerCapacityResponse, error) {
	conn, err := u.connection(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, u.timeout/3)
	defer cancel()
	return doormanpb.NewCapacityClient(conn).GetServerCapacity(ctx, request)
}

// errClosed: the Upstream was closed.
var errClosed = errors.New("doorman: asked after Close")

// connection is the one to address. There is room for one more, because the
// stranger that was asked longest ago leaves.
func (u *Upstream) connection(address string) (*grpc.ClientConn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()

	if u.closed {
		return nil, errClosed
	}
	if i := slices.IndexFunc(u.conns, func(c upstreamConn) bool { return c.address == address }); i >= 0 {
		c := u.conns[i]
		u.conns = append(slices.Delete(u.conns, i, i+1), c)
		return c.conn, nil
	}
	conn, err := grpc.NewClient(address, u.dial...)
	if err != nil {
		return nil, err
	}
	u.conns = append(u.conns, upstreamConn{address, conn})
	if len(u.conns) > len(u.addresses)+maxStrangers {
		i := slices.IndexFunc(u.conns, func(c upstreamConn) bool { return !slices.Contains(u.addresses, c.address) })
		_ = u.conns[i].conn.Close()
		u.conns = slices.Delete(u.conns, i, i+1)
	}
	return conn, nil
}

// Close closes all connections; calls under way end with an error.
func (u *Upstream) Close() (err error) {
	u.mu.Lock()
	defer u.mu.Unlock()

	u.closed = true
	for _, c := range u.conns {
		err = errors.Join(err, c.conn.Close())
	}
	u.conns = nil
	return err
}
