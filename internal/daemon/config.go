// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/daemon/dialled"
	"github.com/headgate/headgate/internal/daemon/doors"
	"github.com/headgate/headgate/ringpop/dns"
)

// Config is what a Daemon must know. What has no default is required.
type Config struct {
	// Limits is the file of limits, followed while it changes. Required without LimitsDB.
	Limits string

	// LimitsDB is the database of limits, whose newest version is followed: the directory
	// of a SQLite file, postgres://USER@HOST/DATABASE without a password, or
	// etcd://HOST:PORT/PREFIX. Not together with Limits.
	LimitsDB string

	// Data is a directory for what must outlive the daemon: a copy of the limits that
	// were last in force, from which it starts while Limits or LimitsDB is broken. It is made if it
	// is not there. Default nowhere, and then a daemon does not start with broken limits.
	Data string

	// Listen is where to listen for other deciders, host:port; port 0 takes
	// any free one.
	Listen string

	// Edge is where to serve gRPC to programs that run no decider, host:port;
	// port 0 takes any free one.
	Edge string

	// EdgeAddress is the edge as its clients dial it, for those that ask;
	// default where Edge has led to, on Address's host if that is all of them.
	EdgeAddress string

	// HTTP is where to serve HTTP to programs, host:port; port 0 takes any
	// free one. Default nowhere.
	HTTP string

	// Unix is the file of a Unix socket where to serve both gRPC and HTTP to
	// programs on this machine. Default nowhere.
	Unix string

	// UnixMode are the permissions of Unix: write permission is required to connect.
	// Default DefaultUnixMode.
	UnixMode fs.FileMode

	// Address is this decider's, as others dial it and as the list of
	// members has it; default where Listen has led to.
	Address string

	// Members are the addresses of all deciders, this one's among them, or one name of
	// package dns; default this one alone. Those that do not answer are left out.
	Members []string

	// MembersFile is a file with the addresses of all deciders, one a line,
	// followed while it changes. Not together with Members. Those that do not answer are
	// left out.
	MembersFile string

	// Gossip finds the members. Not together with Members and MembersFile.
	Gossip Gossip

	// Role is RoleDecider, or RoleEdge for a daemon that owns no keys, with Gossip;
	// default RoleDecider.
	Role string

	// Zone is where this daemon is, for weightings that look at the label "zone", with
	// Gossip.
	Zone string

	// Parent are the edges of the cluster above, any of which answers for all
	// keys; default none. Keys whose rule says `parent: true` share what it
	// leases to this cluster.
	Parent []string

	// ParentProtocol is how the cluster above is asked, above.Headgate or
	// above.Doorman; default above.Headgate.
	ParentProtocol string

	// ParentCA is a file with the authorities of the parent's certificate, read
	// by Start; default none, and the parent is asked in plain text. It is shown
	// TLS.Cert, if there is one.
	ParentCA string
	// Cluster is what this cluster is called: the same on all its deciders, unlike all
	// others below that parent. Required with Parent. With Gossip, deciders with
	// different names never join; default "headgate".
	Cluster string

	// TLS is how Edge and HTTP are encrypted; default not at all.
	TLS TLS

	// Policy is the file that says which programs may do what at Edge, HTTP and Unix: see
	// package callers. It is followed as it changes. Default none: everybody may do
	// everything.
	Policy string

	// Operators is the file that says who may see and change what at Admin, over the API of
	// package admin/api: a policy as in package callers. It is followed as it changes.
	// Default none: there is no such API.
	Operators string

	// AdminTLS is how Admin is encrypted; default not at all.
	AdminTLS TLS

	// ClusterTLS is how deciders talk to each other at Listen; default in plain text. All
	// deciders have it, or none.
	ClusterTLS ClusterTLS

	// Admin is where operators read metrics, health and profiles, host:port; port 0
	// takes any free one. Default nowhere, and then nothing is measured.
	Admin string
	// Redis is where keys under `algorithm: redis` are decided; default
	// nowhere, and no rule may name it.
	Redis Redis
	// TopKeys is for how many keys Admin has metrics of their own: so many of those that are used
	// most, as many of those that are rejected most, of those nearest to their limits, and of those
	// least evenly used over the hosts. At most MaxTopKeys; default none.
	TopKeys int

	// MaxConnections bounds those to each of Edge, HTTP and Unix: one more is
	// closed as it comes, or takes the place of one from the address with the most.
	// Default DefaultMaxConnections; each costs about 25 kB.
	MaxConnections int

	// LameDuck is how long Stop goes on to answer requests after health checks say
	// no; default not at all. Set it to the time in which load balancers notice.
	LameDuck time.Duration

	// Drain is how long Stop lets calls at the edge end by themselves;
	// default DefaultDrain. Longer loses fewer calls that are slow, and
	// delays the end.
	Drain time.Duration
}

// Defaults of Config.
const (
	DefaultMaxConnections = 10_000
	DefaultTopKeys        = 10 // of headgate serve
	MaxTopKeys            = 1000
	DefaultDrain          = 5 * time.Second
	DefaultLameDuck       = 5 * time.Second // of `headgate serve`
	DefaultUnixMode       = 0o660
)

// Mistake is an error about settings of a Config.
type Mistake struct {
	// Settings are the flags of `headgate serve` that it is about, such as "tls-cert". Those
	// that are not set may be among them.
	Settings []string
	Err      error
}

// Error implements error.
func (m *Mistake) Error() string { return m.Err.Error() }

// Unwrap is for package errors.
func (m *Mistake) Unwrap() error { return m.Err }

// mistaken makes each error in err a Mistake in settings; nil if err is.
func mistaken(err error, settings ...string) error {
	if err == nil {
		return nil
	}
	several, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return &Mistake{settings, err}
	}
	var errs []error
	for _, err := range several.Unwrap() {
		errs = append(errs, mistaken(err, settings...))
	}
	return errors.Join(errs...)
}

// Validate returns all that is wrong with c, as Mistakes that errors.Join has joined.
func (c Config) Validate() error {
	var errs []error
	for _, a := range []struct{ what, address string }{{"listen", c.Listen}, {"edge", c.Edge}, {"http", c.HTTP}, {"admin", c.Admin}} {
		if a.address == "" && (a.what == "http" || a.what == "admin") {
			continue
		}
		_, port, err := net.SplitHostPort(a.address)
		if err != nil || port == "" {
			errs = append(errs, mistaken(fmt.Errorf("%s %q is not host:port: write it as in 127.0.0.1:7935", a.what, a.address), a.what))
		} else if err := dialled.Port(port); err != nil {
			errs = append(errs, mistaken(fmt.Errorf("%s %q: %w", a.what, a.address, err), a.what))
		}
	}
	for _, a := range []struct {
		what, address string
		usual         int
	}{{"address", c.Address, 7933}, {"edge-address", c.EdgeAddress, 7934}} {
		if a.address != "" {
			errs = append(errs, mistaken(dialled.Check(a.address, a.usual), a.what))
		}
	}
	errs = append(errs, c.validateLimits(), c.validateMembers(), c.validateParent(), c.validateTLS(), c.Redis.validate())
	errs = append(errs, mistaken(doors.CheckUnix(c.Unix, c.UnixMode), "unix", "unix-mode"))
	if c.TopKeys < 0 || c.TopKeys > MaxTopKeys {
		errs = append(errs, mistaken(fmt.Errorf("metrics of %d keys: 0 to %d are possible", c.TopKeys, MaxTopKeys), "top-keys"))
	}
	if c.MaxConnections < 0 {
		errs = append(errs, mistaken(fmt.Errorf("%d connections: allow 1 or more", c.MaxConnections), "max-connections"))
	}
	if c.Drain < 0 {
		errs = append(errs, mistaken(fmt.Errorf("drain for %v: use 0 or more", c.Drain), "drain"))
	}
	if c.LameDuck < 0 {
		errs = append(errs, mistaken(fmt.Errorf("a lame duck for %v: use 0 or more", c.LameDuck), "lame-duck"))
	}
	return errors.Join(errs...)
}

// edgeAddress is EdgeAddress or its default, for an edge that listens on at.
func (c Config) edgeAddress(at net.Addr, address string) string {
	if c.EdgeAddress != "" {
		return c.EdgeAddress
	}
	if dialled.Check(at.String(), 7933) == nil {
		return at.String()
	}
	host, _, _ := net.SplitHostPort(address)
	_, port, _ := net.SplitHostPort(at.String())
	return net.JoinHostPort(host, port)
}

// member checks that address is listed, where the list is fixed.
func (c Config) member(address string) error {
	if len(c.Members) == 0 || dns.Is(c.Members[0]) || slices.Contains(c.Members, address) {
		return nil
	}
	return fmt.Errorf("this decider's address %q is not among the members %s: list it, or give the listed one as --address",
		address, strings.Join(c.Members, ", "))
}

func (c Config) maxConnections() int {
	if c.MaxConnections == 0 {
		return DefaultMaxConnections
	}
	return c.MaxConnections
}

// withinFiles is maxConnections, or less if this process may have no more than files open: a
// quarter of them stays for other deciders, operators and limits.
func (c Config) withinFiles(files uint64) int {
	doors := uint64(1)
	for _, address := range []string{c.HTTP, c.Unix} {
		if address != "" {
			doors++
		}
	}
	most := uint64(c.maxConnections())                   //nolint:gosec // more than 0
	return int(min(most, max((files-files/4)/doors, 1))) //nolint:gosec // at most maxConnections
}

func (c Config) drain() time.Duration {
	if c.Drain == 0 {
		return DefaultDrain
	}
	return c.Drain
}

func (c Config) unixMode() fs.FileMode {
	if c.UnixMode == 0 {
		return DefaultUnixMode
	}
	return c.UnixMode
}
