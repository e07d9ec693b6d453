// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
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
	a := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{}, every(algorithm.NameElastic)))
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

// without is message as a release writes or reads it that does not know some fields.
func without(t *testing.T, message []byte, unknown ...protowire.Number) (rest []byte) {
	t.Helper()
	for len(message) > 0 {
		number, _, n := protowire.ConsumeField(message)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		if !slices.Contains(unknown, number) {
			rest = append(rest, message[:n]...)
		}
		message = message[n:]
	}
	return rest
}

// A host or an owner of the release before knows no loans and no hand-over, the columns that takes
// got last: they are lost on the way. Under auto, one bucket decides as before, also when the key moves.
func TestLoansAndHandOversAreLostOnTheReleaseBefore(t *testing.T) {
	for _, wants := range []int{8, 30} { // tokens in 100 ms, of a limit of 100/s
		rule := dynamicconfig.Rule{Key: "*", Limit: 100, Burst: 100, Algorithm: algorithm.NameAuto, Lease: time.Minute}
		a := leased(t, rule)
		take := func(now time.Duration, takes *usage.Takes) *usage.Taken {
			p, err := usage.EncodeTakes(takes)
			if err != nil {
				t.Fatal(err)
			}
			p.Value = without(t, p.Value, 13, 14, 15) // more, wants, handed
			read, taken := new(usage.Takes), new(usage.Taken)
			if err := usage.DecodeTakes(p, read); err != nil {
				t.Fatal(err)
			}
			a.Take(now, "h", read, taken)
			if p, err = usage.EncodeTaken(taken, len(read.Rows)); err != nil {
				t.Fatal(err)
			}
			p.Value = without(t, p.Value, 5) // lent
			heard := new(usage.Taken)
			if err := usage.DecodeTaken(p, len(read.Rows), heard); err != nil {
				t.Fatal(err)
			}
			return heard
		}
		passed, asked, told := 0.0, 0, usage.Take{}
		for now := time.Duration(0); now < 60*s; now += s / 10 {
			for range wants {
				row := usage.Take{Key: "k", Auto: true, Tokens: 1, More: 50, Wants: float64(10 * wants), By: told.By, Told: told.Told}
				if told.By != 0 {
					row.Ago = now - told.Ago
				}
				asked++
				heard := take(now, &usage.Takes{Rows: []usage.Take{row}})
				if got := heard.Rows[0]; got.OK {
					passed++
				}
				told = usage.Take{By: heard.By, Told: heard.Rows[0].Left, Ago: now}
			}
			if now == 30*s {
				before := a
				a = leased(t, rule)
				a.Moved(now)
				take(now, &usage.Takes{Rows: before.keys.Buckets(now, before.number, func(string) bool { return true })})
			}
		}
		one := min(float64(asked), 100*60+100) // bucket
		if passed < 0.98*one || passed > one+1 {
			t.Errorf("of %d events, %v pass, and %v of one bucket", asked, passed, one)
		}
	}
}
