// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

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

	worker *worker // to wake, if it still waits in this turn
	turn   int32
	job    func() // to run
	of     process
}

// cut is a partition: nothing passes from one set of hosts to another.
type cut struct {
	id       int
	from, to []bool // by host
}

// call asks the owner of a part.
func (c *cluster) call(h *host, batch *driver.Batch, part usage.Part) {
	owner, ok := c.byName[part.Owner]
	if part.Err != nil || !ok {
		return // nobody owns these keys: they go on with what they have
	}
	payload, err := (usage.Columnar{}).EncodeReport(part.Usage)
	if err != nil {
		c.fail(fmt.Errorf("%s encodes its usage: %w", h.name, err))
		return
	}
	c.Reports++
	k := &call{batch: batch, part: part, host: h.number, process: h.process, owner: owner, deadline: c.now + h.timeout}
	if owner == h.number { // in process
		answer, err := c.step(h, k, payload)
		if err == nil {
			err = c.take(h, k, answer)
		}
		c.fail(err)
		return
	}
	c.Bytes += int64(HeaderBytes + len(h.name) + len(payload.TypeUrl) + len(payload.Value))
	c.send(h.number, owner, request, message{call: k, payload: payload}, 0)
}

// send puts a message on its way.
func (c *cluster) send(from, to int, k kind, m message, after time.Duration) {
	n, r := &c.sc.Network, c.links[from]
	// The same draws for every message, whatever its fate.
	lost, twice, back := r.Float64() < n.Loss, r.Float64() < n.Duplicate, r.Float64() < n.Reorder
	jitter, again := r.Float64(), r.Float64()
	if lost || c.isCut(from, to) {
		return
	}
	delay := after + n.Latency
	if back {
		delay += n.HoldBack
	}
	c.queue.push(c.now+delay+time.Duration(jitter*float64(n.Jitter)), k, int32(to), c.keep(m))
	if twice {
		c.queue.push(c.now+delay+time.Duration(again*float64(n.Jitter)), k, int32(to), c.keep(m))
	}
}

func (c *cluster) isCut(from, to int) bool {
	for i := range c.cuts {
		if c.cuts[i].from[from] && c.cuts[i].to[to] {
			return true
		}
	}
	return false
}

// keep stores a message for the event that delivers it; fetch gives it back.
func (c *cluster) keep(m message) int32 {
	if n := len(c.free); n > 0 {
		i := c.free[n-1]
		c.free = c.free[:n-1]
		c.messages[i] = m
		return i
	}
	c.messages = append(c.messages, m)
	return int32(len(c.messages) - 1)
}

func (c *cluster) fetch(ref int32) message {
	m := c.messages[ref]
	c.messages[ref] = message{}
	c.free = append(c.free, ref)
	return m
}

// serve is a request that has reached its owner.
func (c *cluster) serve(h *host, ref int32) error {
	m := c.fetch(ref)
	if h.aggregator == nil || c.now >= m.call.deadline {
		return nil // the deadline travels with the request
	}
	answered, err := c.step(h, m.call, m.payload)
	if err != nil {
		return err
	}
	c.Bytes += int64(len(answered.TypeUrl) + len(answered.Value))
	c.send(h.number, m.call.host, answer, message{call: m.call, payload: answered}, h.slow)
	return nil
}

// step is Aggregator.Update, on virtual time.
func (c *cluster) step(h *host, k *call, payload *anypb.Any) (*anypb.Any, error) {
	if err := (usage.Columnar{}).DecodeReport(payload, &c.usage); err != nil {
		return nil, fmt.Errorf("%s decodes usage: %w", h.name, err)
	}
	if err := h.aggregator.Step(c.now-h.born, c.hosts[k.host].name, &c.usage, &c.grants); err != nil {
		return nil, fmt.Errorf("%s decides: %w", h.name, err)
	}
	answered, err := (usage.Columnar{}).EncodeGrants(&c.grants, c.usage.Len())
	if err != nil {
		return nil, fmt.Errorf("%s encodes grants: %w", h.name, err)
	}
	return answered, nil
}

// apply is an answer that has reached its host.
func (c *cluster) apply(h *host, ref int32) error {
	m := c.fetch(ref)
	if h.process != m.call.process || c.now >= m.call.deadline {
		return nil // nobody waits for it any more
	}
	return c.take(h, m.call, m.payload)
}

// take hands the grants in an answer to the host's limiters.
func (c *cluster) take(h *host, k *call, payload *anypb.Any) error {
	grants, err := (usage.Columnar{}).DecodeGrants(payload, k.part.Usage)
	if err == nil {
		if !k.answered {
			k.answered = true
			c.books.answers(h, k.part.Usage)
		}
		err = driver.Of(h.group).Apply(h.local(c.now), k.batch, k.part.Rows, grants)
		c.plan(h) // a grant may bring the next report forward
	}
	if err != nil {
		return fmt.Errorf("%s takes in grants: %w", h.name, err)
	}
	c.plan(h)
	return nil
}
