// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
)

// climbEvery is how often an owner looks whether to ask the cluster above, as
// parent.Client.Run does.
const climbEvery = 100 * time.Millisecond

var errNoAnswer = errors.New("no answer in time")

// climb is what an owner asks of the cluster above, with what has been
// answered so far. There is one at a time, as in Run.
type climb struct {
	asked   *claims.Claims
	leases  claims.Leases
	errs    []error
	missing int   // parts that are not answered
	number  int32 // tells it from others of the run
	host    int
	process int32
}

// claim is the part of a climb that goes to one owner above.
type claim struct {
	of   *climb
	rows []int
}

// below is one round of the loop of an owner that has a cluster above.
func (f *Fleet) below(h *Host) error {
	if h.climb != nil {
		return nil
	}
	asked := h.aggregator.Parent().Ask(f.Now-h.born, f.branches[h.branch].Name)
	if asked == nil {
		return nil
	}
	n := len(asked.Rows)
	k := &climb{asked: asked, leases: claims.Leases{Rows: make([]claims.Lease, n)}, errs: make([]error, n), host: h.Number, process: h.process}
	h.climb = k
	byOwner := make(map[int]*claim)
	var parts []*claim // in the order of rows
	ring := f.branches[f.branches[h.branch].Parent].members.ring
	for row := range asked.Rows {
		owner, ok := f.ByName[ring.Owner(asked.Rows[row].Key)]
		if !ok {
			k.errs[row] = rpc.ErrNoOwner
			continue
		}
		part := byOwner[owner]
		if part == nil {
			part = &claim{of: k}
			byOwner[owner] = part
			parts = append(parts, part)
			k.missing++
		}
		part.rows = append(part.rows, row)
	}
	for _, part := range parts {
		request := &claims.Claims{}
		for _, row := range part.rows {
			request.Rows = append(request.Rows, asked.Rows[row])
		}
		payload, err := claims.Encode(request)
		if err != nil {
			return fmt.Errorf("%s encodes claims: %w", h.Name, err)
		}
		f.Bytes += int64(HeaderBytes + len(payload.Value))
		owner := f.ByName[ring.Owner(request.Rows[0].Key)]
		f.send(h.Number, owner, claimed, message{claim: part, payload: payload}, 0)
	}
	if k.missing == 0 {
		f.hear(h)
		return nil
	}
	f.climbs++
	k.number = f.climbs
	f.Queue.Push(f.Now+claims.DefaultTimeout, lapse, int32(h.Number), k.number)
	return nil
}

// hear gives an owner what came of its climb.
func (f *Fleet) hear(h *Host) {
	k := h.climb
	h.climb = nil
	h.aggregator.Parent().Hear(f.Now-h.born, k.asked, &k.leases, k.errs)
}

// lease answers a claim that has reached an owner above.
func (f *Fleet) lease(h *Host, m message) error {
	if h.aggregator == nil {
		return nil
	}
	asked, err := claims.Decode(m.payload)
	if err != nil {
		return fmt.Errorf("%s decodes claims: %w", h.Name, err)
	}
	payload, err := claims.EncodeLeases(h.aggregator.Claim(f.Now-h.born, asked), len(asked.Rows))
	if err != nil {
		return fmt.Errorf("%s encodes leases: %w", h.Name, err)
	}
	f.Bytes += int64(len(payload.Value))
	f.send(h.Number, m.claim.of.host, leased, message{claim: m.claim, payload: payload}, h.Slow)
	return nil
}

// leased is an answer that has reached the owner that asked.
func (f *Fleet) leased(h *Host, m message) error {
	k := m.claim.of
	if h.climb != k || h.process != k.process || m.claim.rows == nil {
		return nil // given up, or here before
	}
	leases, err := claims.DecodeLeases(m.payload, len(m.claim.rows))
	if err != nil {
		return fmt.Errorf("%s decodes leases: %w", h.Name, err)
	}
	for i, row := range m.claim.rows {
		k.leases.Rows[row] = leases.Rows[i]
	}
	m.claim.rows = nil
	if k.missing--; k.missing == 0 {
		f.hear(h)
	}
	return nil
}

// lapse gives up on what is missing of a climb.
func (f *Fleet) lapse(h *Host, number int32) {
	k := h.climb
	if k == nil || k.number != number {
		return
	}
	for row := range k.errs {
		if k.leases.Rows[row].Lasts == 0 && k.errs[row] == nil {
			k.errs[row] = errNoAnswer
		}
	}
	f.hear(h)
}

// HandOver has a host that leaves in order give back what it holds to the owners of its keys, and tell the next
// owners of the keys that it owns what is left, as a Node does when it stops. It does not wait for answers: what is lost on
// the way, they learn from the hosts.
func (f *Fleet) HandOver(h *Host) error {
	if !h.Up {
		return nil
	}
	if h.group != nil {
		reports(f, h, driver.Of(h.group).Last(h.Local(f.Now)))
	}
	if h.aggregator == nil {
		return nil
	}
	f.handBuckets(h)
	heirs := h.ring.Without(h.Name)
	for _, part := range h.aggregator.Handover(f.Now - h.born) {
		byOwner := make(map[int]*claims.Claims)
		var owners []int // in the order of rows
		for _, row := range part.Rows {
			owner, ok := f.ByName[heirs.Owner(row.Key)]
			if !ok {
				continue
			}
			if byOwner[owner] == nil {
				byOwner[owner] = &claims.Claims{}
				owners = append(owners, owner)
			}
			byOwner[owner].Rows = append(byOwner[owner].Rows, row)
		}
		for _, owner := range owners {
			payload, err := claims.Encode(byOwner[owner])
			if err != nil {
				return fmt.Errorf("%s hands over: %w", h.Name, err)
			}
			f.Bytes += int64(HeaderBytes + len(payload.Value))
			nobody := &claim{of: &climb{host: h.Number, process: h.process}}
			f.send(h.Number, owner, claimed, message{claim: nobody, payload: payload}, 0)
		}
	}
	return nil
}
