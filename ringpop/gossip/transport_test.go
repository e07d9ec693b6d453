// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"
)

// Packets of strangers cost a host little, so that it has time for those of others.
func TestPacketsOfStrangersCostLittle(t *testing.T) {
	h, err := listen(net.IPv4(127, 0, 0, 1), 0, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Shutdown(); err != nil {
			t.Error(err)
		}
	}()
	stranger, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: h.port()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close() }()
	member := func(i int) string { return "\xf4\x04test" + strings.Repeat(string(rune('a'+i%26)), 100) }
	send := func(text string) {
		if _, err := stranger.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	const packets = 200
	kept := make([]*memberlist.Packet, packets)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range kept {
		for _, other := range []string{"\xf4\x05tests", "\xf4\x04tes", "garbage", ""} {
			send(other)
		}
		send(member(i))
		kept[i] = <-h.PacketCh()
	}
	runtime.ReadMemStats(&after)
	for i, p := range kept {
		if string(p.Buf) != member(i) || p.From.String() != stranger.LocalAddr().String() {
			t.Fatalf("memberlist gets %q of %v", p.Buf, p.From)
		}
	}
	if each := (after.TotalAlloc - before.TotalAlloc) / packets; each > 4<<10 {
		t.Errorf("a packet of a member, and four of strangers, take %d bytes", each)
	}
}

// memberlist compares the bytes of addresses, which have four of IPv4.
func TestAnAddressIsAsMemberlistHasIt(t *testing.T) {
	if ip, port, err := new(transport).FinalAdvertiseAddr("10.0.0.7", 7946); len(ip) != net.IPv4len || port != 7946 || err != nil {
		t.Errorf("%v of %d bytes, port %d, %v", ip, len(ip), port, err)
	}
}
