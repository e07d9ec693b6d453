// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// Peers finds the Decider of another host. Implementations are safe for
// concurrent use and return at once: dialling is for the first call.
type Peers interface {
	// Peer is the Decider at address, as the Placement writes it.
	Peer(address string) (Decider, error)
}

// DefaultMaxCalls is how many calls of one Fanout run at once when nobody
// says otherwise.
const DefaultMaxCalls = 256

// Fanout asks the owners of many keys at once. Its fields do not change once
// it is in use. Safe for concurrent use.
type Fanout struct {
	// Host names the asking host.
	Host string

	// Placement says who owns which key.
	Placement Placement

	// Peers finds the owners.
	Peers Peers

	// Self is the address under which the Placement knows this very host,
	// and Local its Decider: what it owns itself is asked in process,
	// without the network. A nil Local: ask by way of Peers.
	Self  string
	Local Decider

	// Codecs by the name of the algorithm; Columnar for all others.
	Codecs map[string]Codec

	// MaxKeysPerCall bounds the keys in one call; default DefaultKeysPerCall.
	// Higher means fewer and larger messages.
	MaxKeysPerCall int

	// MaxCalls bounds the calls at once; default DefaultMaxCalls. If there
	// are more, a call that times out holds up another.
	MaxCalls int
}

// Update asks the owners of u's keys, one call per Part and all at once, and
// calls done once for each part as soon as it has its answer: the grants of
// its rows, or an error. Exactly one of both is nil. Where the answer is that
// of a Forward, which may not have reached all owners, done is called for the
// rows that it speaks of, and for those that it does not, as if they were two
// parts. Done runs on the caller's goroutine, one call at a time. Update
// returns after the last, and leaves no goroutine behind.
//
// Each call has timeout (> 0) from its start, and ends with ctx. An owner
// that is slow, unreachable, panics or answers nonsense costs its own keys
// only. Errors name the owner and wrap the cause.
//
// Update does not keep u, and done may keep what it is given.
func (f *Fanout) Update(ctx context.Context, u *Usage, timeout time.Duration, done func(Part, *Grants, error)) {
	parts := Split(u, f.Placement, f.MaxKeysPerCall)
	calls := f.MaxCalls
	if calls <= 0 {
		calls = DefaultMaxCalls
	}
	type answer struct {
		part   int
		grants *Grants
		err    error
	}
	// Both have room for all parts, so that nobody waits for done.
	todo, answers := make(chan int, len(parts)), make(chan answer, len(parts))
	for i := range parts {
		todo <- i
	}
	close(todo)
	// Calls wait for the network at once, but their messages are made one
	// after another: what else the process has to do gets its turn between.
	var turn sync.Mutex
	for range min(calls, len(parts)) {
		go func() {
			for i := range todo {
				grants, err := f.ask(ctx, &parts[i], timeout, &turn)
				answers <- answer{part: i, grants: grants, err: err}
			}
		}()
	}
	for range parts {
		a := <-answers
		deliver(parts[a.part], a.grants, a.err, done)
		runtime.Gosched() // many answers may be there at once
	}
}

// ask makes the call for one part. Messages are made and read while it has turn.
func (f *Fanout) ask(ctx context.Context, p *Part, timeout time.Duration, turn *sync.Mutex) (g *Grants, err error) {
	defer func() {
		if err != nil {
			g, err = nil, fmt.Errorf("update %d keys (%s) at %q: %w", p.Usage.Len(), p.Usage.Algorithm, p.Owner, err)
		}
	}()
	defer recovered(&err)
	if p.Err != nil {
		return nil, p.Err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	codec, ok := f.Codecs[p.Usage.Algorithm]
	if !ok {
		codec = Columnar{}
	}
	payload, err := encode(codec, p.Usage, turn)
	if err != nil {
		return nil, err
	}
	owner, err := f.owner(p.Owner)
	if err != nil {
		return nil, err
	}
	answer, err := Ask(ctx, owner, f.Host, payload)
	if err != nil {
		return nil, err
	}
	g, err = decode(codec, answer, p.Usage, turn)
	if err != nil {
		return nil, err
	}
	if g == nil {
		return nil, refuse("the codec returned neither grants nor an error")
	}
	return g, g.Check(p.Usage.Len()) // codecs are anybody's
}

func encode(codec Codec, u *Usage, turn *sync.Mutex) (*anypb.Any, error) {
	take(turn)
	defer turn.Unlock() // codecs are anybody's, and may panic

	return codec.EncodeUsage(u)
}

func decode(codec Codec, answer *anypb.Any, u *Usage, turn *sync.Mutex) (*Grants, error) {
	take(turn)
	defer turn.Unlock()

	return codec.DecodeGrants(answer, u)
}

// take locks turn. Who is next for it is woken ahead of all that waits for a
// processor, and would keep that waiting until the last has had its turn.
func take(turn *sync.Mutex) {
	turn.Lock()
	runtime.Gosched()
}

func (f *Fanout) owner(address string) (Decider, error) {
	if f.Local != nil && address == f.Self {
		return f.Local, nil
	}
	return f.Peers.Peer(address)
}
