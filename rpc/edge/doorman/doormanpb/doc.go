// SPDX-License-Identifier: Apache-2.0

// Package doormanpb holds Doorman's protocol, generated from doorman.proto:
// the service doorman.Capacity and its messages, of proto2, with whole
// seconds for times.
//
//	client := doormanpb.NewCapacityClient(conn)
//	answer, err := client.GetCapacity(ctx, &doormanpb.GetCapacityRequest{
//		ClientId: proto.String("host-7:4711"),
//		Resource: []*doormanpb.ResourceRequest{{
//			ResourceId: proto.String("orders"),
//			Priority:   proto.Int64(0),
//			Wants:      proto.Float64(120),
//		}},
//	})
//
// It is for package doorman, which answers, and for tests and tools. A
// program cannot link it beside another generated copy of this protocol: both
// would register the same names.
package doormanpb
