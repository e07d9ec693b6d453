// SPDX-License-Identifier: Apache-2.0

package quotaservicepb_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// contract is what quotaservice's programs speak: `name: kind field=number, …`.
const contract = `
AllowRequest: string namespace=1, string bucket_name=2, int64 tokens_requested=3, int64 max_wait_millis_override=4, bool max_wait_time_override=5
AllowResponse: enum status=1, int64 tokens_granted=2, int64 wait_millis=3
enum Status: OK=0 REJECTED_TIMEOUT=1 REJECTED_NO_BUCKET=2 REJECTED_TOO_MANY_BUCKETS=3 REJECTED_TOO_MANY_TOKENS_REQUESTED=4 REJECTED_INVALID_REQUEST=5 REJECTED_SERVER_ERROR=6
rpc quotaservice.QuotaService.Allow(AllowRequest) AllowResponse
`

func TestTheProtocolIsQuotaservices(t *testing.T) {
	file := quotaservicepb.File_rpc_edge_quotaservice_quotaservicepb_quotaservice_proto
	if file.Package() != "quotaservice" || file.Syntax() != protoreflect.Proto3 {
		t.Errorf("package %s, %v", file.Package(), file.Syntax())
	}
	var got strings.Builder
	got.WriteString("\n")
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		var fields []string
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			fields = append(fields, fmt.Sprintf("%s %s=%d", f.Kind(), f.Name(), f.Number()))
		}
		fmt.Fprintf(&got, "%s: %s\n", m.Name(), strings.Join(fields, ", "))
		for j := range m.Enums().Len() {
			e := m.Enums().Get(j)
			fmt.Fprintf(&got, "enum %s:", e.Name())
			for k := range e.Values().Len() {
				fmt.Fprintf(&got, " %s=%d", e.Values().Get(k).Name(), e.Values().Get(k).Number())
			}
			got.WriteString("\n")
		}
	}
	for i := range file.Services().Len() {
		methods := file.Services().Get(i).Methods()
		for j := range methods.Len() {
			m := methods.Get(j)
			fmt.Fprintf(&got, "rpc %s(%s) %s\n", m.FullName(), m.Input().Name(), m.Output().Name())
		}
	}
	if got.String() != contract {
		t.Errorf("the protocol is%s", got.String())
	}
}
