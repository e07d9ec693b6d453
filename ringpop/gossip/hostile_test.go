// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"compress/lzw"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/headgate/headgate/internal/waittest"
)

// message is one of memberlist's.
func message(t *testing.T, kind byte, v any) []byte {
	t.Helper()
	b := bytes.NewBuffer([]byte{kind})
	if err := codec.NewEncoder(b, new(codec.MsgpackHandle)).Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// bomb is a message of size bytes in a few.
func bomb(t *testing.T, size int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := lzw.NewWriter(&b, lzw.LSB, 8)
	_, _ = w.Write(make([]byte, size))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return message(t, compressMsg, struct {
		Algo uint8
		Buf  []byte
	}{0, b.Bytes()})
}

// list is the header of a list of hosts.
func list(t *testing.T, nodes, state int) []byte {
	t.Helper()
	return message(t, pushPullMsg, struct {
		Nodes, UserStateLen int
		Join                bool
	}{nodes, state, true})
}

// compound is one message of several.
func compound(parts ...string) string {
	b := []byte{compoundMsg, byte(len(parts))}
	for _, p := range parts {
		b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
	}
	return string(b) + strings.Join(parts, "")
}

// Strangers who know the name of a cluster without keys cost memory for what they send, and
// not for what it says that it is: 60 kB took 60 MiB. Others join meanwhile.
func TestWhatIsSmallStaysSmall(t *testing.T) {
	first, packet := start(t, "a", nil), bomb(t, 30<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	packets, err := net.Dial("udp", first.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packets.Close() }()
	for range 5 {
		for _, b := range []string{string(packet), "\x0c...." + string(packet), compound(string(packet))} {
			if _, err := packets.Write([]byte("\xf4\x04test" + b)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, b := range [][]byte{packet, list(t, 0, 20<<20), list(t, 1<<20, 0), list(t, -1, 0), message(t, userMsg, struct{ UserMsgLen int }{20 << 20})} {
		conn, err := net.Dial("tcp", first.Address())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = conn.Write(append([]byte("\xf4\x04test"), b...)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, _ = io.Copy(io.Discard, conn) // until it is closed
		_ = conn.Close()
	}
	second := start(t, "b", nil, first)
	waittest.Until(t, "a host joins meanwhile", func() bool { return len(first.Standings()) == 2 && len(second.Standings()) == 2 })
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 10 {
		t.Errorf("it took %d MiB", took)
	}
}

func TestTheBeginningOfAStreamIsChecked(t *testing.T) {
	const label = "\xf4\x04test"
	for name, tt := range map[string]struct {
		stream string
		want   string // in the error; empty: none
	}{
		"a ping":                       {label + "\x00rest", ""},
		"an answer, without a label":   {string(list(t, 3, 0)) + "rest", ""},
		"a list":                       {label + string(list(t, maxNodes, 0)) + "rest", ""},
		"an encrypted list":            {label + "\x0arest", ""},
		"another cluster's":            {"\xf4\x05tests\x00rest", ""},
		"a list that is too long":      {label + string(list(t, maxNodes+1, 0)), "a list of 16385 hosts"},
		"a list with more":             {label + string(list(t, 1, 1)), "1 bytes beside them is refused"},
		"a compressed list":            {label + string(bomb(t, 10)), "type 9 are refused"},
		"no message":                   {label, "EOF"},
		"half a label":                 {"\xf4\xff", "EOF"},
		"half a list":                  {label + "\x06\x83\xa5Nodes", "EOF"},
		"a field of which little came": {label + "\x06\x83\xdb\x7f\xff\xff\xffx", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			defer func() { _ = server.Close() }()
			go func() {
				_, _ = client.Write([]byte(tt.stream))
				_ = client.Close()
			}()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got, err := io.ReadAll(&stream{Conn: server})
			runtime.ReadMemStats(&after)
			refused := err != nil && strings.Contains(err.Error(), tt.want) || tt.want == "EOF" && len(got) == 0
			if tt.want == "" && string(got) != tt.stream || tt.want != "" && !refused {
				t.Errorf("%q, %v", got, err)
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
				t.Errorf("it took %d bytes", took)
			}
		})
	}
}

func TestPacketsThatExpandAreRefused(t *testing.T) {
	for packet, want := range map[string]bool{
		"":                             true,
		"\x00ping":                     false,
		"\x0c....\x00ping":             false,
		"\x0c....\x09z":                true,
		"\x09z":                        true,
		"\x01encrypted":                false,
		compound("\x00a", "\x04alive"): false,
		"\x0c....\x07":                 true,
		compound("\x00a", "\x09z"):     true,
		compound(compound("\x00a")):    true,
		compound("\x00a", ""):          true,
		"\x07":                         true,
		"\x07\x05\x00":                 true,
		"\x07\x01\x00\x05abc":          true,
		compound():                     false,
	} {
		if got := expands([]byte(packet)); got != want {
			t.Errorf("expands(%q) = %v", packet, got)
		}
	}
}

// FuzzWhatStrangersSend looks for bytes that cannot be checked.
func FuzzWhatStrangersSend(f *testing.F) {
	for _, seed := range []string{"", "\xf4\x04test\x06\x83\xa5Nodes\x01", "\x0c....\x07\x01\x00\x01a", "\x07\x02\x00\x01\x00\x02abb"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		_ = expands(b)
		_ = check(bytes.NewReader(b))
	})
}
