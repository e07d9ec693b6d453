// SPDX-License-Identifier: Apache-2.0

package doormanpb_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// contract is what Doorman's programs speak: `name: cardinality kind field=number, …`.
const contract = `
Lease: required int64 expiry_time=1, required int64 refresh_interval=2, required double capacity=3
ResourceRequest: required string resource_id=1, required int64 priority=2, optional Lease has=3, required double wants=4
GetCapacityRequest: required string client_id=1, repeated ResourceRequest resource=2
ResourceResponse: required string resource_id=1, required Lease gets=2, optional double safe_capacity=3
GetCapacityResponse: repeated ResourceResponse response=1, optional Mastership mastership=2
Mastership: optional string master_address=1
PriorityBandAggregate: required int64 priority=1, required int64 num_clients=2, required double wants=3
ServerCapacityResourceRequest: required string resource_id=1, optional Lease has=2, repeated PriorityBandAggregate wants=3
GetServerCapacityRequest: required string server_id=1, repeated ServerCapacityResourceRequest resource=2
ServerCapacityResourceResponse: required string resource_id=1, required Lease gets=2, optional Algorithm algorithm=3, optional double safe_capacity=4
GetServerCapacityResponse: repeated ServerCapacityResourceResponse response=1, optional Mastership mastership=2
ReleaseCapacityRequest: required string client_id=1, repeated string resource_id=2
ReleaseCapacityResponse: optional Mastership mastership=1
DiscoveryRequest:
DiscoveryResponse: required Mastership mastership=1, required bool is_master=2
NamedParameter: required string name=1, optional string value=2
Algorithm: required Kind kind=1, required int64 lease_length=2, required int64 refresh_interval=3, repeated NamedParameter parameters=4, optional int64 learning_mode_duration=5
ResourceTemplate: required string identifier_glob=1, required double capacity=2, required Algorithm algorithm=3, optional double safe_capacity=4, optional string description=5
ResourceRepository: repeated ResourceTemplate resources=1
enum Kind: NO_ALGORITHM=0 STATIC=1 PROPORTIONAL_SHARE=2 FAIR_SHARE=3
rpc doorman.Capacity.Discovery(DiscoveryRequest) DiscoveryResponse
rpc doorman.Capacity.GetCapacity(GetCapacityRequest) GetCapacityResponse
rpc doorman.Capacity.GetServerCapacity(GetServerCapacityRequest) GetServerCapacityResponse
rpc doorman.Capacity.ReleaseCapacity(ReleaseCapacityRequest) ReleaseCapacityResponse
`

func TestTheProtocolIsDoormans(t *testing.T) {
	got := make(map[string]bool)
	file := doormanpb.File_rpc_edge_doorman_doormanpb_doorman_proto
	if file.Package() != "doorman" || file.Syntax() != protoreflect.Proto2 {
		t.Errorf("package %s, %v", file.Package(), file.Syntax())
	}
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		got[describe(m)] = true
		for j := range m.Enums().Len() {
			got[describeEnum(m.Enums().Get(j))] = true
		}
	}
	for i := range file.Services().Len() {
		methods := file.Services().Get(i).Methods()
		for j := range methods.Len() {
			m := methods.Get(j)
			got[fmt.Sprintf("rpc %s(%s) %s", m.FullName(), m.Input().Name(), m.Output().Name())] = true
		}
	}
	for line := range strings.Lines(strings.TrimSpace(contract)) {
		line = strings.TrimSpace(line)
		if !got[line] {
			t.Errorf("missing: %s", line)
		}
		delete(got, line)
	}
	for line := range got {
		t.Errorf("not in the contract: %s", line)
	}
}

func describe(m protoreflect.MessageDescriptor) string {
	var fields []string
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		kind := f.Kind().String()
		switch {
		case f.Message() != nil:
			kind = string(f.Message().Name())
		case f.Enum() != nil:
			kind = string(f.Enum().Name())
		}
		fields = append(fields, fmt.Sprintf(" %s %s %s=%d", f.Cardinality(), kind, f.Name(), f.Number()))
	}
	return string(m.Name()) + ":" + strings.Join(fields, ",")
}

func describeEnum(e protoreflect.EnumDescriptor) string {
	text := "enum " + string(e.Name()) + ":"
	for i := range e.Values().Len() {
		v := e.Values().Get(i)
		text += fmt.Sprintf(" %s=%d", v.Name(), v.Number())
	}
	return text
}
