// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/meshusage"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// recorded is a message that an earlier release has written, and what that release
// read from it.
type recorded struct {
	Name, Bytes string
	Rows        int
	Message     json.RawMessage
}

func (r recorded) payload(t *testing.T) *anypb.Any {
	t.Helper()
	value, err := hex.DecodeString(r.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return &anypb.Any{TypeUrl: families[r.Name].typeURL, Value: value}
}

func records(t *testing.T) (all []recorded) {
	t.Helper()
	text, err := os.ReadFile("testdata/release/messages.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) == 0 {
		t.Fatalf("%d messages: %v", len(all), err)
	}
	return all
}

// families is how each recorded message is read.
var families = map[string]struct {
	typeURL string
	message func() proto.Message
	decode  func(p *anypb.Any, rows int) (any, error)
}{
	"usage": {usage.ReportTypeURL, func() proto.Message { return new(headgatepb.Usage) }, func(p *anypb.Any, _ int) (any, error) {
		r := new(usage.Report)
		err := usage.Columnar{}.DecodeReport(p, r)
		return r, err
	}},
	"grants": {usage.GrantsTypeURL, func() proto.Message { return new(headgatepb.Grants) }, func(p *anypb.Any, rows int) (any, error) {
		return usage.Columnar{}.DecodeGrants(p, &usage.Report{Keys: make([]string, rows)})
	}},
	"takes": {usage.TakesTypeURL, func() proto.Message { return new(headgatepb.Takes) }, func(p *anypb.Any, _ int) (any, error) {
		takes := new(usage.Takes)
		err := usage.DecodeTakes(p, takes)
		return takes, err
	}},
	"taken": {usage.TakenTypeURL, func() proto.Message { return new(headgatepb.Taken) }, func(p *anypb.Any, rows int) (any, error) {
		taken := new(usage.Taken)
		err := usage.DecodeTaken(p, rows, taken)
		return taken, err
	}},
	"withdrawals": {ask.WithdrawalsTypeURL, func() proto.Message { return new(headgatepb.Withdrawals) }, func(p *anypb.Any, _ int) (any, error) {
		_, err := ask.Withdrawn{Edge: &ask.Forward{Taker: new(ask.Taker)}}.Update(context.Background(), "edge", p)
		return nil, err
	}},
	"claims": {claims.TypeURL, func() proto.Message { return new(headgatepb.Claims) }, func(p *anypb.Any, _ int) (any, error) {
		return claims.Decode(p)
	}},
	"leases": {claims.LeasesTypeURL, func() proto.Message { return new(headgatepb.Leases) }, func(p *anypb.Any, rows int) (any, error) {
		return claims.DecodeLeases(p, rows)
	}},
	"gossip": {meshusage.TypeURL, func() proto.Message { return new(headgatepb.Gossip) }, func(p *anypb.Any, _ int) (any, error) {
		r := new(meshusage.Report)
		err := meshusage.Decode(p, r)
		return r, err
	}},
	"question": {questions.TypeURL, func() proto.Message { return new(headgatepb.Question) }, func(p *anypb.Any, _ int) (any, error) {
		about := ""
		_, err := questions.Answers{"key": func(_ context.Context, of []byte) (any, error) {
			about = string(of)
			return nil, nil
		}}.Update(context.Background(), "h", p)
		return about, err
	}},
	"answer": {rpc.TypeURL(new(headgatepb.Answer)), func() proto.Message { return new(headgatepb.Answer) }, func(p *anypb.Any, _ int) (any, error) {
		var got map[string]any
		says := rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return p, nil })
		err := questions.Ask(context.Background(), says, "me", "key", nil, &got)
		return got, err
	}},
	"heard": {meshusage.HeardTypeURL, func() proto.Message { return new(headgatepb.Heard) }, func(p *anypb.Any, _ int) (any, error) {
		return meshusage.DecodeHeard(p)
	}},
}

// wantRecorded decodes p, and compares what it says with what the release said that
// wrote it. Fields that were added since are zero.
func wantRecorded(t *testing.T, r recorded, p *anypb.Any) {
	t.Helper()
	got, err := families[r.Name].decode(p, r.Rows)
	if err != nil {
		t.Errorf("%s: %v", r.Name, err)
		return
	}
	if got == nil {
		return // there is nothing to see from outside
	}
	want := reflect.New(reflect.TypeOf(got))
	if err := json.Unmarshal(r.Message, want.Interface()); err != nil {
		t.Fatal(err)
	}
	if a, b := asJSON(t, got), asJSON(t, want.Elem().Interface()); a != b {
		t.Errorf("%s: read %s\nwant %s", r.Name, a, b)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMessagesOfTheReleaseBeforeAreRead(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range records(t) {
		wantRecorded(t, r, r.payload(t))
		seen[r.Name] = true
	}
	for name := range families {
		if !seen[name] {
			t.Errorf("no message of an earlier release is %s", name)
		}
	}
}

// unknown are fields that no release has yet, of all kinds, and one of a known
// number in an encoding that this release does not know.
func unknown(known protowire.Number) (b []byte) {
	b = protowire.AppendVarint(protowire.AppendTag(b, 24, protowire.VarintType), 1<<40)
	b = protowire.AppendBytes(protowire.AppendTag(b, 100, protowire.BytesType), []byte("of the next release"))
	b = protowire.AppendFixed32(protowire.AppendTag(b, 200, protowire.Fixed32Type), 7)
	b = protowire.AppendFixed64(protowire.AppendTag(b, 2000, protowire.Fixed64Type), 7)
	b = protowire.AppendTag(b, known, protowire.StartGroupType)
	b = protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), 3)
	return protowire.AppendTag(b, known, protowire.EndGroupType)
}

// extend adds unknown fields to m, and to all messages in it.
func extend(m protoreflect.Message) {
	m.SetUnknown(unknown(m.Descriptor().Fields().Get(0).Number()))
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.IsList() && f.Kind() == protoreflect.MessageKind {
			for i := range v.List().Len() {
				extend(v.List().Get(i).Message())
			}
		}
		return true
	})
}

func TestFieldsOfTheNextReleaseAreSkipped(t *testing.T) {
	for _, r := range records(t) {
		p := r.payload(t)
		for _, extended := range [][]byte{slices.Concat(p.Value, unknown(1)), slices.Concat(unknown(1), p.Value)} {
			wantRecorded(t, r, &anypb.Any{TypeUrl: p.TypeUrl, Value: extended})
		}
		m := families[r.Name].message()
		if err := proto.Unmarshal(p.Value, m); err != nil {
			t.Fatal(err)
		}
		extend(m.ProtoReflect())
		value, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		wantRecorded(t, r, &anypb.Any{TypeUrl: p.TypeUrl, Value: value})
	}
}

type one string

func (o one) Owner(string) string { return string(o) }

// An owner of an earlier release knows only reports. Hosts that send other messages
// get an error, and their reports are answered as before.
func TestAFamilyThatTheOwnerDoesNotKnow(t *testing.T) {
	network := rpctest.New(1)
	network.Bytes(true)
	owner := new(rpc.Mux)
	if err := owner.Register(usage.ReportTypeURL, grantsAll{}); err != nil {
		t.Fatal(err)
	}
	network.Host("owner").Serve(owner)
	peers := network.Host("me").Peers()

	claimant := claims.Claimant{Host: "me", Placement: one("owner"), Peers: peers}
	leases, errs := claimant.Claim(t.Context(), &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: "me"}}})
	if len(errs) != 1 || !errors.Is(errs[0], rpc.ErrUnknownType) || leases.Rows[0] != (claims.Lease{}) {
		t.Errorf("claims: %+v, %v", leases, errs)
	}

	taker := ask.Taker{Host: "me", Placement: one("owner"), Peers: peers}
	defer taker.Close()
	for range 10 { // then it is not even asked, for a while
		if _, err := taker.Take(t.Context(), usage.Take{Key: "k", Tokens: 1}); !errors.Is(err, rpc.ErrUnknownType) && !errors.Is(err, ask.ErrSilent) {
			t.Errorf("take: %v", err)
		}
	}

	payload, err := meshusage.Encode(&meshusage.Report{From: 1})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := peers.Peer("owner")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rpc.Ask(t.Context(), peer, "me", payload); !errors.Is(err, rpc.ErrUnknownType) {
		t.Errorf("mesh usage: %v", err)
	}

	fan := usage.Fanout{Host: "me", Placement: one("owner"), Peers: peers}
	r := &usage.Report{Algorithm: "elastic", Keys: []string{"k"}, Allowed: []int64{1}, Rejected: []int64{0}, Elapsed: []time.Duration{time.Second}, Weight: []float64{0}}
	fan.Update(t.Context(), r, time.Minute, func(_ usage.Part, g *usage.Grants, err error) {
		if err != nil || g.Lease[0] != time.Minute {
			t.Errorf("report: %+v, %v", g, err)
		}
	})
}

// grantsAll grants everything for a minute, in an answer of the next release.
type grantsAll struct{}

func (grantsAll) Update(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	r := new(usage.Report)
	if err := (usage.Columnar{}).DecodeReport(payload, r); err != nil {
		return nil, err
	}
	g := &usage.Grants{Weight: make([]float64, r.Len()), Burst: make([]float64, r.Len()), Used: make([]float64, r.Len()), Lease: slices.Repeat([]time.Duration{time.Minute}, r.Len())}
	answer, err := usage.Columnar{}.EncodeGrants(g, r.Len())
	if err == nil {
		answer.Value = append(answer.Value, unknown(1)...)
	}
	return answer, err
}

// A release that adds a field adds messages with that field to the testdata. So each field of
// each message is in one of them.
func TestEveryFieldIsInARecordedMessage(t *testing.T) {
	has, all := map[protoreflect.FullName]bool{}, map[protoreflect.FullName]bool{}
	var visit func(m protoreflect.Message)
	visit = func(m protoreflect.Message) {
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			all[fields.Get(i).FullName()] = true
		}
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			has[f.FullName()] = true
			switch {
			case f.Kind() != protoreflect.MessageKind:
			case f.IsList():
				for i := range v.List().Len() {
					visit(v.List().Get(i).Message())
				}
			default:
				visit(v.Message())
			}
			return true
		})
	}
	for _, r := range records(t) {
		m := families[r.Name].message()
		if err := proto.Unmarshal(r.payload(t).Value, m); err != nil {
			t.Fatal(err)
		}
		visit(m.ProtoReflect())
	}
	for name := range all {
		if !has[name] {
			t.Errorf("no message in testdata/release has %s: add one, and leave the others as they are", name)
		}
	}
}
