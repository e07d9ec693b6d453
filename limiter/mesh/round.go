// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"sync"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/meshusage"
)

// Message is what to send one host: the Gossips one after another.
type Message struct {
	To      string
	Gossips []*meshusage.Report
	peer    *peer
	encode  func() ([]*anypb.Any, error) // once for all hosts that are sent the same
}

// RoundAt ends a round at now and returns the messages to send. Hosts come in
// the order of their names, those that did not answer last time at the end. The
// caller calls Done for each Message; before that, its host has no other one.
func (m *Mesh) RoundAt(now stage.Instant) []Message {
	m.roundEnds(now)
	round := m.round.Add(1) - 1
	latest := m.changed(now, round)
	if m.sweep(now) {
		m.dropIdle(now)
		m.metrics.keys.Update(float64(m.keys.Load()))
	}
	return m.messages(round, func(acked, after uint64) Message { return m.message(now, round, acked, after, latest) })
}

// message returns what a host lacks that received everything up to acked. If it
// lacks nothing, a message without rows says that this process is there.
func (m *Mesh) message(now stage.Instant, round, acked, after uint64, latest []meshusage.Used) Message {
	gossips := m.cut(round, after, latest)
	if acked+1 != round {
		ended, rows := m.since(now, acked, round)
		gossips = append(m.cut(round, after, ended), m.cut(round, after, rows)...)
	}
	if len(gossips) == 0 {
		gossips = []*meshusage.Report{{From: m.id, Version: round, After: after}}
	}
	return Message{Gossips: gossips, encode: sync.OnceValues(func() (all []*anypb.Any, err error) {
		for _, g := range gossips {
			payload, err := meshusage.Encode(g)
			if err != nil {
				return nil, err
			}
			all = append(all, payload)
		}
		return all, nil
	})}
}

const (
	// maxBytes keeps a message with long keys below the 4 MiB that transports
	// take.
	maxBytes = 3 << 20
	// rowBytes is more than a row takes without its key.
	rowBytes = 40
)

// cut makes messages of rows.
func (m *Mesh) cut(round, after uint64, rows []meshusage.Used) (all []*meshusage.Report) {
	for len(rows) > 0 {
		n, bytes := 0, 0
		for n < min(len(rows), rpc.MaxMeshRows) && bytes <= maxBytes {
			bytes += len(rows[n].Key) + rowBytes
			n++
		}
		all = append(all, &meshusage.Report{From: m.id, Version: round, After: after, Rows: rows[:n:n]})
		rows = rows[n:]
	}
	return all
}
