// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/meshusage"
)

// A Mesh remembers some thousand senders, whose names come with their messages.
func TestAHostWithoutAProperNameIsRefused(t *testing.T) {
	m := New("a", always(&dynamicconfig.Rule{Key: "*", Limit: 1, Burst: 1, Algorithm: Name}), Config{})
	payload, err := meshusage.Encode(&meshusage.Report{From: 1, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"", strings.Repeat("h", rpc.MaxKeyLength+1), strings.Repeat("h", 1<<20)} {
		if _, err := m.Update(t.Context(), host, payload); !errors.Is(err, rpc.ErrPayload) {
			t.Errorf("a host with a name of %d bytes: %v", len(host), err)
		}
	}
	if n := len(m.senders); n != 0 {
		t.Errorf("%d of them are remembered", n)
	}
	if _, err := m.Update(t.Context(), strings.Repeat("h", rpc.MaxKeyLength), payload); err != nil {
		t.Error(err)
	}
}

// Strangers cannot take the room of hosts that are members.
func TestStrangersLeaveRoomForMembers(t *testing.T) {
	m := New("a", always(&dynamicconfig.Rule{Key: "*", Limit: 1, Burst: 1, Algorithm: Name}), Config{})
	m.SetPeers([]string{"a", "b"})
	payload, err := meshusage.Encode(&meshusage.Report{From: 1, Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxSenders {
		if _, err := m.Update(t.Context(), fmt.Sprint("stranger", i), payload); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Update(t.Context(), "b", payload); err != nil {
		t.Errorf("a member is refused: %v", err)
	}
	if _, err := m.Update(t.Context(), "one more", payload); !errors.Is(err, errTooManySenders) {
		t.Errorf("one stranger more: %v", err)
	}
}

// Of two processes that have one name, the one that came first learns that its messages
// do not count, and the receiver logs that, once.
func TestTwoProcessesThatHaveOneName(t *testing.T) {
	var log strings.Builder
	m := New("a", always(&dynamicconfig.Rule{Key: "*", Limit: 1, Burst: 1, Algorithm: Name}), Config{}, WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	send := func(from uint64) error {
		return m.ReceiveAt(stage.Now(), "b", &meshusage.Report{From: from, Version: 1})
	}
	if err := errors.Join(send(1), send(2)); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := send(1); !errors.Is(err, errReplaced) {
			t.Errorf("the one that was replaced: %v", err)
		}
		if err := send(2); err != nil {
			t.Errorf("the other: %v", err)
		}
		if i == 0 && log.Len() > 0 {
			t.Errorf("a message that may be late is logged: %s", log.String())
		}
	}
	if n := strings.Count(log.String(), "two processes"); n != 1 {
		t.Errorf("%d log lines", n)
	}
}

// A process had the name of a member for a while, and ended. From a minute later on, what the member
// uses counts again.
func TestAHostCountsAgainAfterAnotherProcessHadItsName(t *testing.T) {
	rule := &dynamicconfig.Rule{Key: "*", Limit: 1, Burst: 100, Algorithm: Name}
	m := New("a", always(rule), Config{})
	m.SetPeers([]string{"a", "b"})
	now := stage.Now()
	send := func(from, round, used uint64) error {
		return m.ReceiveAt(now, "b", &meshusage.Report{From: from, Version: round, Rows: []meshusage.Used{{Key: "k", Born: 1, Tokens: used, Left: 100 - float64(used)}}})
	}
	if err := errors.Join(send(1, 1, 10), send(2, 1, 0)); err != nil {
		t.Fatal(err)
	}
	now = now.Add(forgetAfter)
	if err := send(1, 2, 20); !errors.Is(err, errReplaced) {
		t.Errorf("the other process may be there still: %v", err)
	}
	now = now.Add(1)
	if err := errors.Join(send(1, 3, 30), send(1, 4, 50)); err != nil {
		t.Fatal(err)
	}
	o, err := m.DoAt(now, stage.Operation{Key: "k", Rule: rule, N: 0})
	if err != nil || o.Left > 51 {
		t.Errorf("%+v, %v: 50 of 100 were used", o, err)
	}
	if err := send(2, 2, 0); !errors.Is(err, errReplaced) {
		t.Errorf("the other process again: %v", err)
	}
}
