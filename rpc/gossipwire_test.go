// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
)

func sampleGossip() *rpc.Gossip {
	return &rpc.Gossip{From: 7, Version: 300, After: 298, Rows: []rpc.Used{
		{Key: "login:ada", Born: 1, Tokens: 1 << 53, Left: -2.5},
		{Key: "k", Born: 300},
		{Key: "login:\xff", Born: 0, Tokens: 127, Left: 1e9},
	}}
}

func TestGossipTravels(t *testing.T) {
	payload, err := rpc.EncodeGossip(sampleGossip())
	if err != nil {
		t.Fatal(err)
	}
	got := rpc.Gossip{Rows: make([]rpc.Used, 9)}
	if err := rpc.DecodeGossip(payload, &got); err != nil {
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
	if err := rpc.DecodeGossip(&anypb.Any{TypeUrl: rpc.GossipTypeURL, Value: again}, &got); err != nil || !slices.Equal(got.Rows, want.Rows) {
		t.Errorf("%+v: %v", got, err)
	}
	if by, err := rpc.DecodeHeard(rpc.EncodeHeard(12)); by != 12 || err != nil {
		t.Errorf("%d, %v", by, err)
	}
	if _, err := rpc.DecodeHeard(rpc.EncodeHeard(0)); !errors.Is(err, rpc.ErrPayload) {
		t.Error(err)
	}
	if rpc.GossipTypeURL != rpc.TypeURL(&headgatepb.Gossip{}) || rpc.HeardTypeURL != rpc.TypeURL(&headgatepb.Heard{}) {
		t.Error("the types are called otherwise")
	}
}

func TestGossipThatIsRefused(t *testing.T) {
	many := make([]rpc.Used, rpc.MaxGossip+1)
	for i := range many {
		many[i].Key = "k"
	}
	for name, g := range map[string]rpc.Gossip{
		"no sender":   {},
		"after":       {From: 1, After: 1},
		"many":        {From: 1, Rows: many},
		"no key":      {From: 1, Rows: []rpc.Used{{}}},
		"unborn":      {From: 1, Rows: []rpc.Used{{Key: "k", Born: 1}}},
		"many tokens": {From: 1, Rows: []rpc.Used{{Key: "k", Tokens: 1<<53 + 1}}},
		"NaN":         {From: 1, Rows: []rpc.Used{{Key: "k", Left: math.NaN()}}},
		"Inf":         {From: 1, Rows: []rpc.Used{{Key: "k", Left: math.Inf(-1)}}},
	} {
		if _, err := rpc.EncodeGossip(&g); !errors.Is(err, rpc.ErrPayload) {
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
		if err := rpc.DecodeGossip(&anypb.Any{TypeUrl: rpc.GossipTypeURL, Value: value}, got); !errors.Is(err, rpc.ErrPayload) || len(got.Rows) != 0 {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
}

func FuzzDecodeGossip(f *testing.F) {
	payload, err := rpc.EncodeGossip(sampleGossip())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload.GetValue())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, value []byte) {
		var g rpc.Gossip
		_, _ = rpc.DecodeHeard(&anypb.Any{TypeUrl: rpc.HeardTypeURL, Value: value})
		if rpc.DecodeGossip(&anypb.Any{TypeUrl: rpc.GossipTypeURL, Value: value}, &g) != nil {
			return
		}
		again, err := rpc.EncodeGossip(&g)
		if err != nil {
			t.Fatalf("%+v passes and cannot be sent: %v", g, err)
		}
		var same rpc.Gossip
		if err := rpc.DecodeGossip(again, &same); err != nil || same.From != g.From || same.Version != g.Version || same.After != g.After || !slices.Equal(same.Rows, g.Rows) {
			t.Fatalf("%+v became %+v: %v", g, same, err)
		}
	})
}
