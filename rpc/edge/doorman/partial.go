// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	encodingproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// partial is a codec of answers in which a required field that is not there counts as 0:
// servers whose code was made of Doorman's protocol as proto3 do not send what is 0, such as
// the capacity of a client that gets nothing.
type partial struct{ encoding.CodecV2 }

func newPartial() partial { return partial{encoding.GetCodecV2(encodingproto.Name)} }

// Unmarshal implements encoding.CodecV2.
func (partial) Unmarshal(data mem.BufferSlice, answer any) error {
	message, ok := answer.(proto.Message)
	if !ok {
		return fmt.Errorf("doorman: an answer of type %T is no message", answer)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	return proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(whole.ReadOnlyData(), message)
}

// Name implements encoding.CodecV2. Without a name, requests have the content type that all
// servers know.
func (partial) Name() string { return "" }
