// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/fan"
)

// Here answers the reports of its own process, as the Decider of this host
// answers those of others: after the same checks, and without making messages of
// them. It is safe for concurrent use.
type Here interface {
	// ReportHere takes in what host used, and fills in g, which is empty. It
	// keeps neither r nor g.
	ReportHere(ctx context.Context, host string, r *Report, g *Grants) error
}

// Updater carries usage to the owners of keys and grants back. A *Fanout is one.
type Updater interface {
	// Update reports u to the owners of its keys. For each part of u it
	// calls done, one call at a time, as soon as that part's answer is there
	// or given up, and returns after the last. It does not keep u.
	Update(ctx context.Context, u *Report, timeout time.Duration, done func(part Part, grants *Grants, err error))
}

var _ Updater = (*Fanout)(nil)

// Fanout asks the owners of many keys at once. Its fields do not change once
// it is in use. Safe for concurrent use.
type Fanout struct {
	// Host names the asking host.
	Host string

	// Placement says who owns which key.
	Placement rpc.Placement

	// Peers finds the owners.
	Peers rpc.Peers

	// Self is the address under which the Placement knows this very host. For
	// keys that it owns, Here is asked without a message. Messages of Codecs, and
	// all if Here is nil, go to Local, without the network. If Local is nil too,
	// they go by way of Peers.
	Self  string
	Here  Here
	Local rpc.Decider

	// Codecs by the name of the algorithm; Columnar for all others.
	Codecs map[string]Codec

	// Refused, when not nil, is called from any goroutine with why some rows of a message or an answer
	// of a Codec count for nothing: the other rows go on. Their keys get no grant.
	Refused func(algorithm string, err error)

	foreign foreign
}

// Update asks the owners of r's keys, one call per Part and all at once, and
// calls done once for each part as soon as it has its answer: the grants of
// its rows, or an error. Exactly one of both is nil. A Forward may not have
// reached all owners. Its answer comes as two parts: the rows that it has grants
// for, and the others. Done runs on the caller's goroutine, one call at a time. Update
// returns after the last, and leaves no goroutine behind.
//
// Each call has timeout (> 0) from its start, and ends with ctx. An owner
// that is slow, unreachable, panics or answers nonsense costs its own keys
// only. Errors name the owner and wrap the cause.
//
// Update does not keep r, and done may keep what it is given.
func (f *Fanout) Update(ctx context.Context, r *Report, timeout time.Duration, done func(Part, *Grants, error)) {
	f.update(ctx, f.Host, r, timeout, done)
}

// update is Update on behalf of host.
func (f *Fanout) update(ctx context.Context, host string, r *Report, timeout time.Duration, done func(Part, *Grants, error)) {
	parts := Split(r, f.Placement)
	codec := f.Codecs[r.Algorithm]
	if codec != nil {
		within, cancel := context.WithTimeout(ctx, timeout)
		parts = f.foreign.encode(within, codec, parts, f.refuse(r.Algorithm))
		cancel()
	}
	// Calls wait for the network at once, but their messages are made one
	// after another: what else the process has to do gets its turn between.
	var turn sync.Mutex
	fan.Each(len(parts), func(i int) (*Grants, error) {
		return f.ask(ctx, host, codec, &parts[i], timeout, &turn)
	}, func(i int, g *Grants, err error) {
		deliver(parts[i], g, err, done)
		runtime.Gosched() // many answers may be there at once
	})
}

// ask makes the call for one part. Messages of the built-in codec are made and read while it has turn.
func (f *Fanout) ask(ctx context.Context, host string, codec Codec, p *Part, timeout time.Duration, turn *sync.Mutex) (g *Grants, err error) {
	err = fan.Call(ctx, "update", p.Usage.Len(), " ("+p.Usage.Algorithm+")", p.Owner, timeout, func(ctx context.Context) error {
		payload := p.payload
		switch {
		case p.Err != nil:
			return p.Err
		case codec != nil: // the message is there
		case f.Here != nil && p.Owner == f.Self:
			answer := new(Grants)
			if err := f.Here.ReportHere(ctx, host, p.Usage, answer); err != nil {
				return err
			}
			g = answer
			return g.Check(p.Usage.Len()) // algorithms are anybody's
		default:
			take(turn)
			payload, err = Columnar{}.EncodeReport(p.Usage)
			turn.Unlock()
			if err != nil {
				return err
			}
		}
		owner := f.Local
		if owner == nil || p.Owner != f.Self {
			if owner, err = f.Peers.Peer(p.Owner); err != nil {
				return err
			}
		}
		answer, err := rpc.Ask(ctx, owner, host, payload)
		if err != nil {
			return err
		}
		if codec != nil {
			g, err = f.foreign.decode(ctx, codec, answer, p, f.refuse(p.Usage.Algorithm))
			return err
		}
		take(turn)
		defer turn.Unlock()

		g, err = Columnar{}.DecodeGrants(answer, p.Usage)
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// refuse calls Refused for algorithm.
func (f *Fanout) refuse(algorithm string) func(error) {
	return func(err error) {
		if f.Refused != nil {
			f.Refused(algorithm, err)
		}
	}
}

// take locks turn. The scheduler runs the next goroutine in line for turn ahead of
// all that wait for a processor, and would keep those waiting until the last has
// had its turn.
func take(turn *sync.Mutex) {
	turn.Lock()
	runtime.Gosched()
}
