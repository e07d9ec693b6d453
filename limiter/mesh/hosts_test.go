// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// A Mesh remembers some thousand senders, whose names come with their messages.
func TestAHostWithoutAProperNameIsRefused(t *testing.T) {
	m := New("a", always(&dynamicconfig.Rule{Key: "*", Limit: 1, Burst: 1, Algorithm: Name}), Config{})
	payload, err := rpc.EncodeGossip(&rpc.Gossip{From: 1, Version: 1})
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
	payload, err := rpc.EncodeGossip(&rpc.Gossip{From: 1, Version: 1})
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
