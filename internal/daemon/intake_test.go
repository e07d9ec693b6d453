// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// asItIs is a codec of requests that are bytes already.
type asItIs struct{}

func (asItIs) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("%T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (asItIs) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(proto.Message); ok {
		return proto.Unmarshal(data.Materialize(), m)
	}
	return nil
}

func (asItIs) Name() string { return "proto" }

// Requests of many empty messages, which take fifty times their size, are refused before
// they are decoded. Whatever becomes of a request, its memory is free again afterwards.
func TestLargeRequestsAreBoundedTogether(t *testing.T) {
	d := start(t, config(t))
	conn := dial(t, d.Edge())
	empties, broken := bytes.Repeat([]byte{0x12, 0}, 2<<20-500), bytes.Repeat([]byte{0xff}, 1<<20)
	for method, bodies := range map[string]map[codes.Code][]byte{
		doormanpb.Capacity_GetCapacity_FullMethodName:       {codes.ResourceExhausted: empties, codes.Internal: broken},
		doormanpb.Capacity_GetServerCapacity_FullMethodName: {codes.ResourceExhausted: empties, codes.Internal: broken},
		doormanpb.Capacity_ReleaseCapacity_FullMethodName:   {codes.ResourceExhausted: empties, codes.Internal: broken},
		quotaservicepb.QuotaService_Allow_FullMethodName:    {codes.Internal: broken},
		"/headgate.v1.Decider/Update":                       {codes.Internal: broken},
	} {
		for want, body := range bodies {
			if err := conn.Invoke(t.Context(), method, body, nil, grpc.ForceCodecV2(asItIs{})); status.Code(err) != want {
				t.Errorf("%s: %v, want %v", method, err, want)
			}
		}
	}
	list := &doormanpb.GetCapacityRequest{ClientId: new("me")}
	for i := range 20_000 {
		list.Resource = append(list.Resource, &doormanpb.ResourceRequest{ResourceId: new(fmt.Sprint("k", i)), Priority: new(int64(1)), Wants: new(1.0)})
	}
	if answer, err := doormanpb.NewCapacityClient(conn).GetCapacity(t.Context(), list); err != nil || len(answer.GetResponse()) != len(list.GetResource()) {
		t.Errorf("a request for %d resources: %d answers, %v", len(list.GetResource()), len(answer.GetResponse()), err)
	}
	if r, err := quotaservicepb.NewQuotaServiceClient(conn).Allow(t.Context(), &quotaservicepb.AllowRequest{Namespace: strings.Repeat("k", 4<<10), BucketName: "b"}); err != nil {
		t.Errorf("%v, %v", r, err)
	}
	waittest.Until(t, "nothing is taken", func() bool { return d.edge.Large() == 0 })
}

// Programs whose code was made of Doorman's protocol as proto3 do not send what is 0, also where the
// field is required: a priority, what is wanted, what they have.
func TestDoormansRequestsWithoutWhatIs0AreServed(t *testing.T) {
	c := config(t)
	c.Limits = write(t, "limits.yaml", sharedRules)
	conn := dial(t, start(t, c).Edge())
	text := func(to []byte, field protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), value)
	}
	wants := func(to []byte, field protowire.Number, v float64) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(to, field, protowire.Fixed64Type), math.Float64bits(v))
	}
	resource := text(nil, 1, []byte("r"))
	many := text(nil, 1, []byte("b"))
	for i := range 300 { // more than is decoded at once
		many = text(many, 2, text(nil, 1, fmt.Append(nil, "a-long-name-of-a-resource-", i)))
	}
	for _, row := range []struct {
		request []byte
		answers int
		gets    float64
	}{
		{text(text(nil, 1, []byte("a")), 2, wants(text(resource, 3, nil), 4, 60)), 1, 60}, // no priority, and an empty has
		{text(text(nil, 1, []byte("a")), 2, resource), 1, 0},                              // nor wants
		{many, 300, 0},
	} {
		got := new(doormanpb.GetCapacityResponse)
		err := conn.Invoke(t.Context(), doormanpb.Capacity_GetCapacity_FullMethodName, row.request, got, grpc.ForceCodecV2(asItIs{}))
		if err != nil || len(got.GetResponse()) != row.answers || got.GetResponse()[0].GetGets().GetCapacity() != row.gets {
			t.Errorf("%.200v, %v; want %d answers, the first with %v", got, err, row.answers, row.gets)
		}
	}
	band := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 2)
	server := new(doormanpb.GetServerCapacityResponse)
	err := conn.Invoke(t.Context(), doormanpb.Capacity_GetServerCapacity_FullMethodName, text(text(nil, 1, []byte("s")), 2, text(resource, 3, wants(band, 3, 70))), server, grpc.ForceCodecV2(asItIs{}))
	if err != nil || len(server.GetResponse()) != 1 || server.GetResponse()[0].GetGets().GetCapacity() != 70 {
		t.Errorf("%v, %v", server, err)
	}
	for method, want := range map[string]codes.Code{
		doormanpb.Capacity_GetCapacity_FullMethodName:     codes.InvalidArgument, // client_id is not there
		doormanpb.Capacity_ReleaseCapacity_FullMethodName: codes.InvalidArgument,
		doormanpb.Capacity_Discovery_FullMethodName:       codes.OK,
	} {
		if err := conn.Invoke(t.Context(), method, []byte{}, nil, grpc.ForceCodecV2(asItIs{})); status.Code(err) != want {
			t.Errorf("%s: %v, want %v", method, err, want)
		}
	}
}
