// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/sim/coroutine"
	"github.com/headgate/headgate/internal/sim/timeline"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/rpc/usage"
)

// HeaderBytes is what headers, framing and names are taken to add to one call,
// request and answer together, on a connection that is warm.
const HeaderBytes = 200

// call is one Update to one owner, from the host's side.
type call struct {
	batch    *driver.Batch
	part     usage.Part
	host     int
	process  int32 // of the host
	owner    int
	deadline traffic.Time
	answered bool // its grants were taken in
}

// message is a request or an answer on its way.
type message struct {
	call    *call
	claim   *claim // instead of a call
	told    *told  // the same; by says who heard it
	by      uint64
	asking  *asking // the same
	payload *anypb.Any

	turn coroutine.Turn[Process] // to end
	job  func()                  // to run
	of   Process
}

// call asks the owner of a part.
func (f *Fleet) call(h *Host, batch *driver.Batch, part usage.Part) {
	owner, ok := f.ByName[part.Owner]
	if part.Err != nil || !ok {
		return // nobody owns these keys: they go on with what they have
	}
	payload, err := (usage.Columnar{}).EncodeReport(part.Usage)
	if err != nil {
		f.Fail(fmt.Errorf("%s encodes its usage: %w", h.Name, err))
		return
	}
	f.Reports++
	k := &call{batch: batch, part: part, host: h.Number, process: h.process, owner: owner, deadline: f.Now + h.timeout}
	if owner == h.Number { // in process
		answer, err := f.step(h, k, payload)
		if err == nil {
			err = f.take(h, k, answer)
		}
		f.Fail(err)
		return
	}
	f.Bytes += int64(HeaderBytes + len(h.Name) + len(payload.TypeUrl) + len(payload.Value))
	f.send(h.Number, owner, request, message{call: k, payload: payload}, 0)
}

// send puts a message on its way.
func (f *Fleet) send(from, to int, k timeline.Kind, m message, after time.Duration) {
	f.Wire.Carry(from, to, func(on time.Duration) { f.Queue.Push(f.Now+after+on, k, int32(to), f.messages.Keep(m)) })
}

// NoticeSplits has all hosts notice later whom they reach.
func (f *Fleet) NoticeSplits() {
	if f.sc.Membership.Splits == 0 {
		return
	}
	for _, h := range f.Hosts {
		f.Queue.Push(f.Now+f.sc.Membership.Splits, noticed, int32(h.Number), 0)
	}
}

// serve is a request that has reached its owner.
func (f *Fleet) serve(h *Host, ref int32) error {
	m := f.messages.Fetch(ref)
	if h.aggregator == nil || f.Now >= m.call.deadline {
		return nil // the deadline travels with the request
	}
	answered, err := f.step(h, m.call, m.payload)
	if err != nil {
		return err
	}
	f.Bytes += int64(len(answered.TypeUrl) + len(answered.Value))
	f.send(h.Number, m.call.host, answer, message{call: m.call, payload: answered}, h.Slow)
	return nil
}

// step is Aggregator.Update, on virtual time.
func (f *Fleet) step(h *Host, k *call, payload *anypb.Any) (*anypb.Any, error) {
	if err := (usage.Columnar{}).DecodeReport(payload, &f.usage); err != nil {
		return nil, fmt.Errorf("%s decodes usage: %w", h.Name, err)
	}
	if err := h.aggregator.Step(f.Now-h.born, f.Hosts[k.host].Name, &f.usage, &f.grants); err != nil {
		return nil, fmt.Errorf("%s decides: %w", h.Name, err)
	}
	answered, err := (usage.Columnar{}).EncodeGrants(&f.grants, f.usage.Len())
	if err != nil {
		return nil, fmt.Errorf("%s encodes grants: %w", h.Name, err)
	}
	return answered, nil
}

// apply is an answer that has reached its host.
func (f *Fleet) apply(h *Host, ref int32) error {
	m := f.messages.Fetch(ref)
	if h.process != m.call.process || f.Now >= m.call.deadline {
		return nil // nobody waits for it any more
	}
	return f.take(h, m.call, m.payload)
}

// take hands the grants in an answer to the host's limiters.
func (f *Fleet) take(h *Host, k *call, payload *anypb.Any) error {
	grants, err := (usage.Columnar{}).DecodeGrants(payload, k.part.Usage)
	if err == nil {
		if !k.answered {
			k.answered = true
			f.books.Answers(h.Number, k.part.Usage)
		}
		err = driver.Of(h.group).Apply(h.Local(f.Now), k.batch, k.part.Rows, grants)
		f.plan(h) // a grant may bring the next report forward
	}
	if err != nil {
		return fmt.Errorf("%s takes in grants: %w", h.Name, err)
	}
	f.plan(h)
	return nil
}
