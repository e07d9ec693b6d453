// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/internal/wire"
	"github.com/headgate/headgate/rpc/usage"
)

// WithdrawalsTypeURL is the type URL of headgate.v1.Withdrawals, by which one
// edge has another undo batches of takes that it does not know itself.
const WithdrawalsTypeURL = "type.googleapis.com/headgate.v1.Withdrawals"

// maxSpread is how many messages an edge sends on to the other edges at once. The
// tokens of more withdrawals stay taken. The bound keeps the edges from being busy
// with withdrawals when one of them dies and all of its callers withdraw.
const maxSpread = 8

// Withdrawn answers Withdrawals at an edge, and undoes the batches that they name.
// Withdrawn is for calls of other hosts of the cluster, and not for callers of the edge:
// those withdraw only their own batches, with their Takes.
type Withdrawn struct {
	Edge *Forward

	// Leaving, when not nil, is closed when this host is about to stop: it tells hosts that Ping.
	Leaving <-chan struct{}
}

var _ rpc.Decider = Withdrawn{}

// Update undoes the batches of payload, which is Withdrawals. The errors are
// ErrPayload.
func (w Withdrawn) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	caller, batches, err := decodeWithdrawals(payload)
	if err != nil {
		return nil, err
	}
	w.Edge.withdraw(caller, batches)
	select {
	case <-w.Leaving:
		return anypb.New(new(emptypb.Empty))
	default:
		return usage.EncodeTaken(&usage.Taken{By: w.Edge.own()}, 0)
	}
}

// withdrawalsKinds are the fields of headgate.v1.Withdrawals: the caller, and its batches.
var withdrawalsKinds = []wire.Kind{1: wire.Fixed64, 2: wire.Varints}

// decodeWithdrawals returns what payload says. The error is an ErrPayload.
func decodeWithdrawals(payload *anypb.Any) (caller uint64, batches []uint64, err error) {
	message, err := wire.Body(payload, WithdrawalsTypeURL)
	if err != nil {
		return 0, nil, err
	}
	var f [3]wire.Run
	if err := wire.Parse(message, withdrawalsKinds, f[:]); err != nil {
		return 0, nil, err
	}
	caller = f[1].Value
	n := f[2].Len()
	if caller == 0 || n > rpc.MaxWithdrawn { // before there is memory for them
		return 0, nil, rpc.Refuse("%d batches of caller %d are withdrawn; name the caller, and at most %d", n, caller, rpc.MaxWithdrawn)
	}
	batches = make([]uint64, n)
	return caller, batches, f[2].EachVarint("batches", n, func(i int, v uint64) { batches[i] = v })
}

// withdraw undoes those of a caller's batches that were answered here, all at once, and
// returns the others. If one of the others is answered later, it is undone then.
func (f *Forward) withdraw(caller uint64, batches []uint64) (unknown []uint64) {
	var undo []usage.Take
	for _, number := range batches {
		rows, known := f.answered.Withdraw(f.Taker.now(), caller, number)
		undo = append(undo, rows...)
		if !known {
			unknown = append(unknown, number)
		}
	}
	f.undo(undo)
	return unknown
}

// withdrawElsewhere has the other edges undo batches, and waits for their
// answers until timeout. Those that do not answer keep the tokens taken. Others is
// not nil.
func (f *Forward) withdrawElsewhere(caller uint64, batches []uint64, timeout time.Duration) {
	if caller == 0 {
		return // such batches are not remembered
	}
	if f.spreading.Add(1) > maxSpread {
		f.spreading.Add(-1)
		return
	}
	defer f.spreading.Add(-1)
	payload, err := anypb.New(&headgatepb.Withdrawals{Caller: caller, Batches: batches})
	if err != nil {
		return // there are no such numbers
	}
	var all sync.WaitGroup
	for _, address := range f.Others() {
		all.Go(func() { f.withdrawAt(address, payload, timeout) })
	}
	all.Wait()
}

func (f *Forward) withdrawAt(address string, payload *anypb.Any, timeout time.Duration) {
	peer, err := f.Taker.Peers.Peer(address)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.Taker.orDefault(timeout))
	defer cancel()
	// The tokens stay taken if there is no answer.
	_, _ = rpc.Ask(ctx, peer, f.Taker.Host, payload)
}

// ErrLeaves is the error of Ping of a host that answers, and is about to stop.
var ErrLeaves = errors.New("the host says that it leaves")

// Ping asks d, as host, to undo nothing. An answer shows that the Withdrawn at d serves, or that
// its host leaves; a refusal shows that it serves, too.
func Ping(ctx context.Context, d rpc.Decider, host string) error {
	payload, err := anypb.New(&headgatepb.Withdrawals{Caller: 1})
	if err != nil {
		return err
	}
	answer, err := rpc.Ask(ctx, d, host, payload)
	switch {
	case errors.Is(err, rpc.ErrPayload):
		return nil
	case err == nil && answer.MessageIs((*emptypb.Empty)(nil)):
		return ErrLeaves
	}
	return err
}
