// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// The owner answers hosts of the release before in a form that they can read:
// see rpc/versions_test.go.
func TestTheReleaseBeforeIsAnswered(t *testing.T) {
	text, err := os.ReadFile("../rpc/testdata/release/messages.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Name, Bytes string
		Rows        int
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	a, err := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{}, every(algorithm.NameElastic)))
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	for _, r := range all {
		value, err := hex.DecodeString(r.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		var typeURL string
		var decode func(*anypb.Any) error
		switch r.Name {
		case "usage":
			typeURL = usage.ReportTypeURL
			decode = func(p *anypb.Any) error {
				_, err := usage.Columnar{}.DecodeGrants(p, &usage.Report{Keys: make([]string, r.Rows)})
				return err
			}
		case "takes":
			typeURL = usage.TakesTypeURL
			decode = func(p *anypb.Any) error { return usage.DecodeTaken(p, r.Rows, new(usage.Taken)) }
		case "claims":
			typeURL = claims.TypeURL
			decode = func(p *anypb.Any) error {
				_, err := claims.DecodeLeases(p, r.Rows)
				return err
			}
		default:
			continue // an answer, or of a family that an Aggregator does not have
		}
		answer, err := a.Update(t.Context(), "h", &anypb.Any{TypeUrl: typeURL, Value: value})
		if err == nil {
			err = decode(answer)
		}
		if err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
		answered++
	}
	if answered < 5 {
		t.Errorf("%d messages were answered", answered)
	}
}
