// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
)

var (
	_ history.Store        = (*Store)(nil)
	_ dynamicconfig.Source = (*Store)(nil)
)

// Defaults.
const (
	DefaultPrefix  = "headgate"
	DefaultPoll    = time.Second
	DefaultTimeout = 2 * time.Second
)

// largest is how much the client sends in one request: more than limits may have. Servers
// take less, unless they are told to take more.
const largest = 32 << 20

// Store is a history of limits, and the dynamicconfig.Source of its newest version. Safe
// for concurrent use, also by several processes. Make it with New or Open, and close it.
type Store struct {
	*history.Source

	config  clientv3.Config
	prefix  string
	poll    time.Duration
	timeout time.Duration
	bell    history.Bell

	mu     sync.Mutex // guards what follows
	client *clientv3.Client
	closed bool
}

// Option changes a Store.
type Option func(*Store)

// WithPrefix sets what the names of all keys begin with, without the slash that follows;
// default DefaultPrefix.
func WithPrefix(prefix string) Option { return func(s *Store) { s.prefix = prefix } }

// WithPoll sets how often the store looks for changes that its watch misses; > 0, default
// DefaultPoll.
func WithPoll(d time.Duration) Option { return func(s *Store) { s.poll = d } }

// WithTimeout sets how long etcd may take to answer; > 0, default DefaultTimeout.
func WithTimeout(d time.Duration) Option { return func(s *Store) { s.timeout = d } }

// New makes a Store. It connects to nothing yet. Without a logger in config, the client logs
// nothing.
func New(config clientv3.Config, options ...Option) (*Store, error) {
	if len(config.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoints: name one, as in 127.0.0.1:2379")
	}
	if config.Logger == nil && config.LogConfig == nil {
		config.Logger = zap.NewNop()
	}
	s := &Store{config: config, prefix: DefaultPrefix, poll: DefaultPoll, timeout: DefaultTimeout}
	for _, o := range options {
		o(s)
	}
	// gRPC's own delays grow to two minutes while etcd is gone. The caller's options come later.
	delays := grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: s.poll / 10, Multiplier: 1.6, Jitter: 0.2, MaxDelay: s.poll},
		MinConnectTimeout: s.timeout,
	})
	if s.config.DialTimeout == 0 { // bounds a login, which has no other bound
		s.config.DialTimeout = s.timeout
	}
	if s.config.MaxCallSendMsgSize == 0 {
		s.config.MaxCallSendMsgSize = largest
	}
	s.config.DialOptions = append([]grpc.DialOption{delays}, config.DialOptions...)
	s.Source = history.NewSource(s, s.poll)
	return s, nil
}

// Close closes the connections. Calls after it are errors.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.client == nil {
		return nil
	}
	c := s.client
	s.client = nil
	return c.Close()
}

// open returns the client, which it makes when it is first needed.
func (s *Store) open() (*clientv3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("the store of limits is closed")
	}
	if s.client == nil {
		c, err := clientv3.New(s.config)
		switch {
		case errors.Is(err, context.DeadlineExceeded): // it logs in here
			return nil, s.silent("log in", err)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", s.at(), err)
		}
		s.client = c
	}
	return s.client, nil
}

// The keys. Numbers have zeros in front, so that keys have the order of numbers.
func (s *Store) newestKey() string { return s.prefix + "/newest" }

func (s *Store) versionKey(number int64) string {
	return fmt.Sprintf("%s/version/%019d", s.prefix, number)
}

func (s *Store) textKey(number int64) string { return fmt.Sprintf("%s/text/%019d", s.prefix, number) }

// record is a version without its text, as it is stored.
type record struct {
	Version     int64  `json:"version"`
	Author      string `json:"author"`
	Message     string `json:"message"`
	Micros      int64  `json:"micros"` // since 1970-01-01T00:00:00Z
	Fingerprint string `json:"fingerprint"`
}

func encode(v history.Version) (string, error) {
	data, err := json.Marshal(record{v.Number, v.Author, v.Message, v.Time.UnixMicro(), v.Fingerprint})
	return string(data), err
}

func decode(data []byte) (history.Version, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return history.Version{}, fmt.Errorf("etcd has a version of the limits that is none: %w", err)
	}
	return history.Version{
		Number: r.Version, Author: r.Author, Message: r.Message,
		Time: time.UnixMicro(r.Micros).UTC(), Fingerprint: r.Fingerprint,
	}, nil
}

// at is which etcd this is, for errors.
func (s *Store) at() string { return "etcd at " + strings.Join(s.config.Endpoints, ", ") }

// silent is the error of an etcd that does not answer.
func (s *Store) silent(what string, err error) error {
	return fmt.Errorf("%s: %s: no answer within %v: check that it runs, that its members have a leader, and that this host can reach it: %w", s.at(), what, s.timeout, err)
}

// do makes one call of etcd.
func (s *Store) do(ctx context.Context, what string, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return s.commit(ctx, what, nil, ops...)
}

// commit makes one transaction, if what compare says is so.
func (s *Store) commit(ctx context.Context, what string, compare []clientv3.Cmp, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	c, err := s.open()
	if err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	response, err := c.Txn(within).If(compare...).Then(ops...).Commit()
	switch {
	case err == nil:
		return response, nil
	case within.Err() != nil && ctx.Err() == nil:
		return nil, s.silent(what, err)
	default:
		return nil, fmt.Errorf("%s: %s: %w%s", s.at(), what, err, remedy(err))
	}
}

// remedy says what to do about an error of etcd, if that is known.
func remedy(err error) string {
	switch {
	case errors.Is(err, rpctypes.ErrNoSpace):
		return ": remove old versions with headgate limits prune, compact and defragment etcd, and disarm its alarm, each with etcdctl; or raise --quota-backend-bytes of its servers"
	case errors.Is(err, rpctypes.ErrRequestTooLarge), status.Code(err) == codes.ResourceExhausted:
		return ": raise --max-request-bytes of etcd's servers above the size of the limits"
	default:
		return ""
	}
}
