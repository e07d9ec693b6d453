// SPDX-License-Identifier: Apache-2.0

package meshusage_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/meshusage"
)

func sampleGossip() *meshusage.Report {
	return &meshusage.Report{From: 7, Version: 300, After: 298, Rows: []meshusage.Used{
		{Key: "login:ada", Born: 1, Tokens: 1 << 53, Left: -2.5},
		{Key: "k", Born: 300},
		{Key: "login:\xff", Born: 0, Tokens: 127, Left: 1e9},
	}}
}

func TestGossipTravels(t *testing.T) {
	payload, err := meshusage.Encode(sampleGossip())
	if err != nil {
		t.Fatal(err)
	}
	got := meshusage.Report{Rows: make([]meshusage.Used, 9)}
	if err := meshusage.Decode(payload, &got); err != nil {
		t.Fatal(err)
	}
	want := sampleGossip()
	if got.From != want.From || got.Version != want.Version || got.After != want.After || !slices.Equal(got.Rows, want.Rows) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// The same bytes are those of the message in headgatepb.
	var m headgatepb.Gossip
	if err := proto.Unmarshal(payload.GetValue(), &m); err != nil {
		t.Fatal(err)
	}
	again, err := proto.Marshal(&m)
	if err != nil || m.GetVersion() != 300 || m.GetAges()[0] != 299 || m.GetUsed()[2] != 127 || m.GetLeft()[0] != -2.5 {
		t.Fatalf("%v: %v", &m, err)
	}
	if err := meshusage.Decode(&anypb.Any{TypeUrl: meshusage.TypeURL, Value: again}, &got); err != nil || !slices.Equal(got.Rows, want.Rows) {
		t.Errorf("%+v: %v", got, err)
	}
	if by, err := meshusage.DecodeHeard(meshusage.EncodeHeard(12)); by != 12 || err != nil {
		t.Errorf("%d, %v", by, err)
	}
	if _, err := meshusage.DecodeHeard(meshusage.EncodeHeard(0)); !errors.Is(err, rpc.ErrPayload) {
		t.Error(err)
	}
	if meshusage.TypeURL != rpc.TypeURL(&headgatepb.Gossip{}) || meshusage.HeardTypeURL != rpc.TypeURL(&headgatepb.Heard{}) {
		t.Error("the types are called otherwise")
	}
}

// A host reads messages into the same memory again and again. Rows that a message does not have
// would keep the keys of an earlier message, which share one string.
func TestGossipKeepsNoKeysOfAnEarlierMessage(t *testing.T) {
	var got meshusage.Report
	for _, rows := range []int{3, 1, 2} {
		sent := sampleGossip()
		sent.Rows = sent.Rows[:rows]
		payload, err := meshusage.Encode(sent)
		if err != nil {
			t.Fatal(err)
		}
		if err := meshusage.Decode(payload, &got); err != nil {
			t.Fatal(err)
		}
		for _, beyond := range got.Rows[rows:cap(got.Rows)] {
			if beyond.Key != "" {
				t.Errorf("after a message with %d rows, there is a row beyond them with the key %q", rows, beyond.Key)
			}
		}
	}
}

func TestGossipThatIsRefused(t *testing.T) {
	many := make([]meshusage.Used, rpc.MaxMeshRows+1)
	for i := range many {
		many[i].Key = "k"
	}
	for name, g := range map[string]meshusage.Report{
		"no sender":   {},
		"after":       {From: 1, After: 1},
		"many":        {From: 1, Rows: many},
		"no key":      {From: 1, Rows: []meshusage.Used{{}}},
		"unborn":      {From: 1, Rows: []meshusage.Used{{Key: "k", Born: 1}}},
		"many tokens": {From: 1, Rows: []meshusage.Used{{Key: "k", Tokens: 1<<53 + 1}}},
		"NaN":         {From: 1, Rows: []meshusage.Used{{Key: "k", Left: math.NaN()}}},
		"Inf":         {From: 1, Rows: []meshusage.Used{{Key: "k", Left: math.Inf(-1)}}},
	} {
		if _, err := meshusage.Encode(&g); !errors.Is(err, rpc.ErrPayload) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, m := range map[string]*headgatepb.Gossip{
		"no sender":    {},
		"old":          {From: 1, Version: 5, Keys: []byte("k"), KeyLengths: []uint32{1}, Ages: []uint64{6}},
		"ages":         {From: 1, Keys: []byte("k"), KeyLengths: []uint32{1}, Ages: []uint64{0, 0}},
		"used":         {From: 1, Keys: []byte("kk"), KeyLengths: []uint32{1, 1}, Used: []uint64{5}},
		"left":         {From: 1, Keys: []byte("kk"), KeyLengths: []uint32{1, 1}, Left: []float32{5}},
		"long":         {From: 1, Keys: []byte("k"), KeyLengths: []uint32{2}},
		"short":        {From: 1, Keys: []byte("kk"), KeyLengths: []uint32{1}},
		"empty":        {From: 1, Keys: []byte("kk"), KeyLengths: []uint32{2, 0}},
		"not a number": {From: 1, Keys: []byte("k"), KeyLengths: []uint32{1}, Left: []float32{float32(math.NaN())}},
	} {
		value, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got := sampleGossip()
		if err := meshusage.Decode(&anypb.Any{TypeUrl: meshusage.TypeURL, Value: value}, got); !errors.Is(err, rpc.ErrPayload) || len(got.Rows) != 0 {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

func FuzzDecodeGossip(f *testing.F) {
	payload, err := meshusage.Encode(sampleGossip())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload.GetValue())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		var g meshusage.Report
		_, _ = meshusage.DecodeHeard(&anypb.Any{TypeUrl: meshusage.HeardTypeURL, Value: value})
		if meshusage.Decode(&anypb.Any{TypeUrl: meshusage.TypeURL, Value: value}, &g) != nil {
			return
		}
		again, err := meshusage.Encode(&g)
		if err != nil {
			t.Fatalf("%+v passes and cannot be sent: %v", g, err)
		}
		var same meshusage.Report
		if err := meshusage.Decode(again, &same); err != nil || same.From != g.From || same.Version != g.Version || same.After != g.After || !slices.Equal(same.Rows, g.Rows) {
			t.Fatalf("%+v became %+v: %v", g, same, err)
		}
	})
}
