// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/headgatepb"
)

const (
	// maxIntake bounds the memory of the large requests of an edge that are decoded and
	// answered at once, in bytes, as estimated before they are decoded.
	maxIntake = 96 << 20
	// largeRequest is the size above which a request counts, in bytes.
	largeRequest = 4 << 10
	// memoryOfField is what a text within a message takes when it is decoded, at most, in
	// bytes: two bytes on the wire may be an empty one.
	memoryOfField = 96
	// memoryOfResource is what a text or a message in a request for leases takes until it
	// is answered. A resource has two of them, or more.
	memoryOfResource = 512
	// memoryOfReport is by how much a report grows when it is decoded.
	memoryOfReport = 4
)

// intake bounds the memory of the requests of an edge. It is the codec of its server, and
// an interceptor: the codec knows how large a request is, and the interceptor when it is
// answered. Use newIntake. Safe for concurrent use.
type intake struct {
	encoding.CodecV2

	turns Turns
	taken atomic.Int64
	marks sync.Map // by request, which is a pointer: its mark
	count atomic.Int64
}

// mark is what the interceptor has to know of a large request.
type mark struct {
	memory  int64
	refused error
}

func newIntake(turns Turns) *intake {
	return &intake{CodecV2: encoding.GetCodecV2(encodingproto.Name), turns: turns}
}

// Unmarshal implements encoding.CodecV2. A request that is refused stays empty, and the
// interceptor says why: the server would turn an error from here into INTERNAL.
func (i *intake) Unmarshal(data mem.BufferSlice, request any) error {
	large := data.Len() > largeRequest
	message := counted(request)
	if message == nil || !large && !doormans(request) {
		return i.CodecV2.Unmarshal(data, request)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	if !large {
		return decode(whole.ReadOnlyData(), message)
	}
	m := mark{memory: memoryOf(message, whole.ReadOnlyData())}
	if i.taken.Add(m.memory) > maxIntake {
		i.taken.Add(-m.memory)
		m = mark{refused: status.Error(codes.ResourceExhausted, "too many large requests are being answered, or the request is too large: try again, with less in one request")}
	} else {
		var err error
		i.turns.Run(context.Background(), func() { err = decode(whole.ReadOnlyData(), message) })
		if err != nil {
			i.taken.Add(-m.memory)
			return err
		}
	}
	i.count.Add(1)
	i.marks.Store(request, m)
	return nil
}

// decode reads a request. A required field that is not there counts as 0: programs whose
// code was made of Doorman's protocol as proto3 do not send what is 0, such as a priority.
func decode(data []byte, request proto.Message) error {
	return proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(data, request)
}

// call is a grpc.UnaryServerInterceptor. It comes before all others.
func (i *intake) call(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := i.bounded(ctx, request, handle)
	owe(ctx, answer)
	return answer, err
}

// owe has a large answer count until the client has taken it. Those with one decision are
// small.
func owe(ctx context.Context, answer any) {
	message, ok := answer.(proto.Message)
	if _, small := answer.(*quotaservicepb.AllowResponse); !ok || small {
		return
	}
	if size := proto.Size(message); size > conns.LargeAnswer {
		if p, ok := peer.FromContext(ctx); ok {
			conns.Owe(p.Addr, size)
		}
	}
}

// bounded answers if there is memory for the request.
func (i *intake) bounded(ctx context.Context, request any, handle grpc.UnaryHandler) (any, error) {
	if i.count.Load() == 0 {
		return handle(ctx, request)
	}
	found, ok := i.marks.LoadAndDelete(request)
	if !ok {
		return handle(ctx, request)
	}
	i.count.Add(-1)
	m, _ := found.(mark) // nothing else is stored
	if m.refused != nil {
		return nil, m.refused
	}
	defer i.taken.Add(-m.memory)
	return handle(ctx, request)
}

// counted is request if it is one of those that count, and else nil. Only the requests of
// unary methods do: call sees no others.
func counted(request any) proto.Message {
	switch r := request.(type) {
	case *headgatepb.UpdateRequest:
		return r
	case *doormanpb.GetCapacityRequest:
		return r
	case *doormanpb.GetServerCapacityRequest:
		return r
	case *doormanpb.ReleaseCapacityRequest:
		return r
	case *quotaservicepb.AllowRequest:
		return r
	}
	return nil
}

// doormans reports whether request is one of Doorman's protocol.
func doormans(request any) bool {
	switch request.(type) {
	case *doormanpb.GetCapacityRequest, *doormanpb.GetServerCapacityRequest, *doormanpb.ReleaseCapacityRequest:
		return true
	}
	return false
}

// memoryOf is about how much memory a request takes when it is decoded from data.
func memoryOf(request proto.Message, data []byte) int64 {
	size := int64(len(data))
	switch request.(type) {
	case *headgatepb.UpdateRequest:
		return size * memoryOfReport
	case *doormanpb.GetCapacityRequest, *doormanpb.GetServerCapacityRequest:
		return size + memoryOfResource*fields(data, true)
	}
	return size + memoryOfField*fields(data, false)
}

// fields is how many fields of data are lists, texts and messages, and if nested, how many
// are in those too. What is no message has as many as come before the mistake.
func fields(data []byte, nested bool) (n int64) {
	for len(data) > 0 {
		number, kind, length := protowire.ConsumeTag(data)
		if length < 0 {
			return n
		}
		data = data[length:]
		if length = protowire.ConsumeFieldValue(number, kind, data); length < 0 {
			return n
		}
		if kind == protowire.BytesType {
			n++
			if value, _ := protowire.ConsumeBytes(data); nested {
				n += fields(value, false)
			}
		}
		data = data[length:]
	}
	return n
}
