// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/anypb"
)

// Instrument observes the calls between hosts: package rpcmetrics counts them, and package
// rpcotel traces them. Its methods are safe for concurrent use.
type Instrument interface {
	// Caller returns d, the Decider at address as this host asks it, with its calls
	// observed.
	Caller(address string, d Decider) Decider

	// Answerer returns d, which answers other hosts, with its calls observed.
	Answerer(d Decider) Decider
}

// Observed returns peers with their calls observed by all, the first of which is the
// outermost.
func Observed(peers Peers, all ...Instrument) Peers {
	if len(all) == 0 {
		return peers
	}
	return observed{peers, all}
}

type observed struct {
	peers Peers
	all   []Instrument
}

func (o observed) Peer(address string) (Decider, error) {
	d, err := o.peers.Peer(address)
	if err != nil {
		return nil, err
	}
	for _, i := range slices.Backward(o.all) {
		d = i.Caller(address, d)
	}
	return d, nil
}

// Answering returns d with its calls observed by all, the first of which is the outermost.
func Answering(d Decider, all ...Instrument) Decider {
	for _, i := range slices.Backward(all) {
		d = i.Answerer(d)
	}
	return d
}

// Kinds are all that KindOf returns.
var Kinds = []string{"Usage", "Takes", "Withdrawals", "Claims", "Gossip", "Question", "other"}

// KindOf is the kind of messages that payload is of, as a label: the name of a message of
// headgate's own, such as Usage, or "other". So callers, who choose the type URL, do not
// choose how many kinds there are.
func KindOf(payload *anypb.Any) string {
	name, ours := strings.CutPrefix(MessageName(payload.GetTypeUrl()), "headgate.v1.")
	if i := slices.Index(Kinds, name); ours && i >= 0 {
		return Kinds[i]
	}
	return "other"
}

// Reasons are all that ReasonOf returns.
var Reasons = []string{"timeout", "canceled", "refused", "unknown-type", "panic", "failed"}

// ReasonOf is why a call failed with err, as a label. "failed" is all that is not one of
// the others, such as a host that cannot be reached.
func ReasonOf(err error) string {
	if _, panicked := errors.AsType[*PanicError](err); panicked {
		return "panic"
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, ErrPayload):
		return "refused"
	case errors.Is(err, ErrUnknownType):
		return "unknown-type"
	default:
		return "failed"
	}
}

// headersKey and receivedKey are the keys of the two kinds of headers in a context.
type (
	headersKey  struct{}
	receivedKey struct{}
)

// WithHeaders returns a context with which a call sends headers beside its message, for
// Instruments: traceparent, for instance. Their names are in lower case. Nothing that
// decides reads them.
func WithHeaders(ctx context.Context, headers map[string]string) context.Context {
	return context.WithValue(ctx, headersKey{}, headers)
}

// Headers are what a transport sends beside the message; nil most often.
func Headers(ctx context.Context) map[string]string {
	headers, _ := ctx.Value(headersKey{}).(map[string]string)
	return headers
}

// WithReceived returns a context for a Decider whose caller sent headers: get returns the
// one with a name, in lower case, or "". Headers are of one call: what the Decider itself
// calls with the context gets none of them.
func WithReceived(ctx context.Context, get func(name string) string) context.Context {
	if Headers(ctx) != nil {
		ctx = WithHeaders(ctx, nil)
	}
	return context.WithValue(ctx, receivedKey{}, get)
}

// Received is the header with this name, in lower case, that the caller sent; empty if
// there is none.
func Received(ctx context.Context, name string) string {
	if get, _ := ctx.Value(receivedKey{}).(func(string) string); get != nil {
		return get(name)
	}
	return ""
}
