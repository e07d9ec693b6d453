// SPDX-License-Identifier: Apache-2.0

package rpc_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/meshusage"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/questions/carried"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

var update = flag.Bool("update", false, "write the table of docs/wire.md anew")

const maxMillis = 86_400_000

// plain are messages that are accepted, with a value in nearly every field, and
// what decodes the message that has them.
var plain = map[string]func() (part, whole proto.Message, decode func(*anypb.Any) error){
	"Usage": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := &headgatepb.Usage{ElapsedMs: 1000, Keys: []byte("k"), KeyLengths: []uint32{1}, Answers: []*headgatepb.Answered{anAnswer()}}
		return m, m, decodeReport
	},
	"Grants": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := &headgatepb.Grants{Weights: []float32{1}, LeaseMs: 1000, Questions: []*headgatepb.Question{{Kind: "k"}}}
		return m, m, func(p *anypb.Any) error {
			_, err := usage.Columnar{}.DecodeGrants(p, &usage.Report{Keys: []string{"k"}})
			edge := rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) { return p, nil })
			_, carries := (&carried.Program{Edge: edge}).Update(context.Background(), "host", &anypb.Any{TypeUrl: usage.ReportTypeURL})
			return cmp.Or(err, carries)
		}
	},
	"Answered": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := anAnswer()
		return m, &headgatepb.Usage{Answers: []*headgatepb.Answered{m}}, decodeReport
	},
	"Takes": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := &headgatepb.Takes{Keys: []byte("k"), KeyLengths: []uint32{1}}
		return m, m, func(p *anypb.Any) error { return usage.DecodeTakes(p, new(usage.Takes)) }
	},
	"Taken": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := &headgatepb.Taken{By: 1, Answers: []uint64{1}}
		return m, m, func(p *anypb.Any) error { return usage.DecodeTaken(p, 1, new(usage.Taken)) }
	},
	"Withdrawals": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := &headgatepb.Withdrawals{Caller: 1}
		return m, m, func(p *anypb.Any) error {
			_, err := ask.Withdrawn{Edge: &ask.Forward{Taker: new(ask.Taker)}}.Update(context.Background(), "edge", p)
			return err
		}
	},
	"Claims": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := &headgatepb.Claims{Rows: []*headgatepb.Claim{aClaim()}}
		return m, m, decodeClaims
	},
	"Claim": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := aClaim()
		return m, &headgatepb.Claims{Rows: []*headgatepb.Claim{m}}, decodeClaims
	},
	"Band": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := aClaim()
		return m.Bands[0], &headgatepb.Claims{Rows: []*headgatepb.Claim{m}}, decodeClaims
	},
	"Lease": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := &headgatepb.Lease{LastsMs: maxMillis}
		return m, &headgatepb.Leases{Rows: []*headgatepb.Lease{m}}, func(p *anypb.Any) error {
			_, err := claims.DecodeLeases(p, 1)
			return err
		}
	},
	"Gossip": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := &headgatepb.Gossip{From: 1, Keys: []byte("k"), KeyLengths: []uint32{1}}
		return m, m, func(p *anypb.Any) error { return meshusage.Decode(p, new(meshusage.Report)) }
	},
	"Question": func() (proto.Message, proto.Message, func(*anypb.Any) error) {
		m := &headgatepb.Question{Kind: "k"}
		return m, m, func(p *anypb.Any) error {
			q := new(headgatepb.Question)
			return cmp.Or(p.UnmarshalTo(q), questions.Check(q))
		}
	},
}

func anAnswer() *headgatepb.Answered {
	return &headgatepb.Answered{Question: &headgatepb.Question{Kind: "k"}}
}

func decodeReport(p *anypb.Any) error {
	reads := rpc.DeciderFunc(func(_ context.Context, _ string, p *anypb.Any) (*anypb.Any, error) {
		return p, usage.Columnar{}.DecodeReport(p, new(usage.Report))
	})
	_, err := new(carried.Board).Before(reads).Update(context.Background(), "host", p)
	return err
}

func aClaim() *headgatepb.Claim {
	return &headgatepb.Claim{Key: []byte("k"), Host: []byte("h"), Bands: []*headgatepb.Band{{Clients: 1}}}
}

func decodeClaims(p *anypb.Any) error {
	_, err := claims.Decode(p)
	return err
}

// Each bound of the table is accepted, and the next value beyond is refused.
func TestTheTableIsWhatIsAccepted(t *testing.T) {
	for _, row := range accepted {
		t.Run(row.message+"/"+row.field, func(t *testing.T) {
			for _, v := range []float64{row.least, row.most} {
				if err, ok := accepts(t, row, v); !ok || err != nil {
					t.Errorf("%v is refused: %v", v, err)
				}
			}
			for _, v := range []float64{before(row), after(row)} {
				if err, ok := accepts(t, row, v); ok && err == nil {
					t.Errorf("%v is accepted", v)
				} else if ok {
					wantRefused(t, err, "")
				}
			}
		})
	}
}

// before and after are the values next to the bounds, as far as the field has them.
func before(row bounds) float64 {
	if isFloat(row) {
		return math.Nextafter(row.least, math.Inf(-1))
	}
	return row.least - 1
}

func after(row bounds) float64 {
	if isFloat(row) || row.most >= 1<<53 { // where a float64 has no next integer
		return math.Nextafter(row.most, math.Inf(1))
	}
	return row.most + 1
}

func isFloat(row bounds) bool {
	switch row.unit {
	case "bytes", "rows":
		return false
	}
	switch f := fieldOf(row); f.Kind() {
	case protoreflect.FloatKind, protoreflect.DoubleKind, protoreflect.BytesKind:
		return true
	default:
		return false
	}
}

func fieldOf(row bounds) protoreflect.FieldDescriptor {
	name, _, _ := strings.Cut(row.field, " ")
	m := headgatepb.File_rpc_headgatepb_headgate_proto.Messages().ByName(protoreflect.Name(row.message))
	return m.Fields().ByName(protoreflect.Name(name))
}

// accepts decodes a message with v in the row's field; ok is false if the field
// cannot say v.
func accepts(t *testing.T, row bounds, v float64) (err error, ok bool) {
	t.Helper()
	if row.message == "UpdateRequest" {
		return rpc.CheckHost(strings.Repeat("h", int(v))), true
	}
	part, whole, decode := plain[row.message]()
	m, f := part.ProtoReflect(), fieldOf(row)
	switch {
	case row.unit == "rows" || row.unit == "bytes":
		if v < 0 {
			return nil, false
		}
		fill(m, f, row, int(v))
	case f.Kind() == protoreflect.BytesKind: // a column of halves of floats
		bits := math.Float32bits(float32(v))
		if float32(v) > float32(row.most) || v > row.most {
			bits = math.Float32bits(float32(row.most))&0xffff0000 + 0x10000
		}
		if v < row.least {
			bits = math.Float32bits(-1)
		}
		m.Set(f, protoreflect.ValueOfBytes([]byte{byte(bits >> 16), byte(bits >> 24)}))
	default:
		value, ok := number(f, v, row)
		if !ok {
			return nil, false
		}
		if f.IsList() {
			list := m.NewField(f).List()
			list.Append(value)
			m.Set(f, protoreflect.ValueOfList(list))
		} else {
			m.Set(f, value)
		}
	}
	return decode(anyOf(t, whole)), true
}

// fill gives f so many rows or bytes.
func fill(m protoreflect.Message, f protoreflect.FieldDescriptor, row bounds, n int) {
	each := strings.HasSuffix(row.field, " each")
	switch {
	case each || f.Name() == "key_lengths":
		lengths := []uint32{uint32(n)}
		if !each {
			lengths = make([]uint32, n)
			for i := range lengths {
				lengths[i] = 1
			}
		}
		list := m.NewField(f).List()
		for _, length := range lengths {
			list.Append(protoreflect.ValueOfUint32(length))
		}
		m.Set(f, protoreflect.ValueOfList(list))
		m.Set(f.ContainingMessage().Fields().ByName("keys"), protoreflect.ValueOfBytes([]byte(strings.Repeat("k", n))))
	case f.IsList():
		list := m.NewField(f).List()
		for range n {
			if f.Kind() == protoreflect.MessageKind {
				list.Append(m.Get(f).List().Get(0))
			} else {
				list.Append(protoreflect.ValueOfUint64(1))
			}
		}
		m.Set(f, protoreflect.ValueOfList(list))
	case f.Kind() == protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString(strings.Repeat("x", n)))
	default:
		m.Set(f, protoreflect.ValueOfBytes([]byte(strings.Repeat("x", n))))
	}
}

func number(f protoreflect.FieldDescriptor, v float64, row bounds) (value protoreflect.Value, ok bool) {
	switch f.Kind() {
	case protoreflect.FloatKind:
		narrow := float32(v)
		if v > row.most {
			narrow = math.Nextafter32(float32(row.most), float32(math.Inf(1)))
		}
		if v < row.least {
			narrow = math.Nextafter32(float32(row.least), float32(math.Inf(-1)))
		}
		return protoreflect.ValueOfFloat32(narrow), true
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(v), true
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(max(v, 0))), v >= 0 && v <= math.MaxUint32
	default:
		bound := uint64(max(v, 0))
		if v > row.most { // 2^53 + 1 is no float64
			bound = uint64(row.most) + 1
		}
		return protoreflect.ValueOfUint64(bound), v >= 0
	}
}

// unbounded are the fields that may say anything, or that are checked against
// others of their message.
var unbounded = map[string]bool{
	"UpdateRequest.payload": true, "UpdateResponse.payload": true, "Usage.keys": true, "Takes.keys": true, "Gossip.keys": true,
	"Grants.unanswered": true, "Claims.rows": true, "Leases.rows": true, "Claim.keep": true, "Claim.release": true, "Claim.headroom": true,
	"Band.priority": true, "Lease.learning": true, "Lease.unknown": true, "Takes.caller": true, "Takes.batch": true, "Takes.settled": true,
	"Takes.told_by": true, "Takes.auto": true, "Takes.measured": true, "Withdrawals.caller": true, "Gossip.from": true, "Gossip.version": true, "Gossip.after": true,
	"Gossip.ages": true, "Heard.by": true, "Answer.json": true, "Answered.question": true,
}

func TestEveryFieldIsInTheTable(t *testing.T) {
	listed := map[string]bool{}
	for _, row := range accepted {
		listed[row.message+"."+string(nameOf(row))] = true
	}
	messages := headgatepb.File_rpc_headgatepb_headgate_proto.Messages()
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for j := range fields.Len() {
			if name := string(messages.Get(i).Name()) + "." + string(fields.Get(j).Name()); !listed[name] && !unbounded[name] {
				t.Errorf("%s has no line in accepted", name)
			}
		}
	}
}

func nameOf(row bounds) protoreflect.Name { return fieldOf(row).Name() }

func TestTheDocsHaveTheTable(t *testing.T) {
	const path, begin, end = "../docs/wire.md", "<!-- accepted: generated by go test ./rpc -run Docs -update -->\n", "<!-- end -->\n"
	var table strings.Builder
	table.WriteString("| message | field | unit | at least | at most |\n|---|---|---|---|---|\n")
	for _, row := range accepted {
		fmt.Fprintf(&table, "| %s | `%s` | %s | %s | %s |\n", row.message, row.field, row.unit, written(row.least), written(row.most))
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, found := strings.Cut(string(page), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table between %q and %q", path, begin, end)
	}
	want := head + begin + table.String() + end + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is not what the table says; run go test ./rpc -run Docs -update", path)
	}
}

func written(v float64) string {
	switch v {
	case 1 << 53:
		return "2⁵³"
	case -(1 << 53):
		return "-2⁵³"
	case math.MaxFloat32:
		return "largest float"
	case -math.MaxFloat32:
		return "-largest float"
	case math.MaxFloat64:
		return "largest double"
	}
	return fmt.Sprintf("%.0f", v)
}
