// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/rpc/edge/doorman/doormanpb"
)

// dial connects from an address that is not that of honest clients.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{}
	if network == "tcp" {
		d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}
	}
	return d.DialContext(ctx, network, address)
}

// hostile is a client of HTTP/2 that keeps to the windows of its server, and to
// nothing else.
type hostile struct {
	conn net.Conn

	mu      sync.Mutex // protects following fields, and writes
	framer  *http2.Framer
	changed *sync.Cond
	over    bool
	refused bool // the server has ended a call
	initial int
	window  int
	windows map[uint32]int
}

func newHostile(conn net.Conn) *hostile {
	h := &hostile{conn: conn, framer: http2.NewFramer(conn, conn), initial: 65535, window: 65535, windows: make(map[uint32]int)}
	h.changed = sync.NewCond(&h.mu)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = h.framer.WriteSettings()
	go h.read()
	return h
}

// read learns what may be sent, until the connection ends.
func (h *hostile) read() {
	for {
		f, err := h.framer.ReadFrame()
		h.mu.Lock()
		switch f := f.(type) {
		case *http2.WindowUpdateFrame:
			if f.StreamID == 0 {
				h.window += int(f.Increment)
			} else {
				h.windows[f.StreamID] += int(f.Increment)
			}
		case *http2.SettingsFrame:
			if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
				for id := range h.windows {
					h.windows[id] += int(v) - h.initial
				}
				h.initial = int(v)
			}
			if !f.IsAck() {
				_ = h.framer.WriteSettingsAck()
			}
		case *http2.RSTStreamFrame:
			h.refused = true
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = h.framer.WritePing(true, f.Data)
			}
		}
		h.over = h.over || err != nil
		h.changed.Broadcast()
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// open begins a call; it reports false once the connection is over.
func (h *hostile) open(id uint32, method string, more ...[2]string) bool {
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	e.SetMaxDynamicTableSize(0) // each call sends all of its headers
	for _, f := range append([][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", method},
		{":authority", "x"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
		{"rpc-caller", "x"},
		{"rpc-service", "headgate"},
		{"rpc-encoding", "proto"},
	}, more...) {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	h.mu.Lock()
	defer h.mu.Unlock()

	h.windows[id] = h.initial
	err := h.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true})
	return err == nil && !h.over
}

// send sends data as the windows allow.
func (h *hostile) send(id uint32, data []byte) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	for len(data) > 0 {
		n := min(len(data), 16384, h.window, h.windows[id])
		for n <= 0 && !h.over && !h.refused {
			h.changed.Wait()
			n = min(len(data), 16384, h.window, h.windows[id])
		}
		if h.over || h.refused || h.framer.WriteData(id, false, data[:n]) != nil {
			return false
		}
		h.window -= n
		h.windows[id] -= n
		data = data[n:]
	}
	return true
}

// end ends a call whose message is sent.
func (h *hostile) end(id uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()

	return h.framer.WriteData(id, true, nil) == nil && !h.over
}

// wait returns when the server has ended the connection, or a call.
func (h *hostile) wait() {
	h.mu.Lock()
	defer h.mu.Unlock()

	for !h.over && !h.refused {
		h.changed.Wait()
	}
}

// unfinished sends all of 40 large messages but their last bytes, and waits.
func unfinished(conn net.Conn, method string) {
	h := newHostile(conn)
	const size = 4<<20 - 1000
	message := make([]byte, 5+size-500)
	binary.BigEndian.PutUint32(message[1:], size)
	for i := range uint32(40) {
		if id := 2*i + 1; !h.open(id, method) || !h.send(id, message) {
			return
		}
	}
	h.wait()
}

// longKey is an AllowRequest that is as large as a message may be. The daemon knows the
// method before the message comes, and refuses it after.
func longKey() []byte {
	const size = 4<<20 - 1000
	return append(binary.AppendUvarint([]byte{0x0a}, size), bytes.Repeat([]byte{'a'}, size)...)
}

// whole sends a message n times.
func whole(conn net.Conn, method string, request []byte, n int) {
	h := newHostile(conn)
	message := make([]byte, 5, 5+len(request))
	binary.BigEndian.PutUint32(message[1:], uint32(len(request)))
	message = append(message, request...)
	for i := range uint32(n) {
		if id := 2*i + 1; !h.open(id, method) || !h.send(id, message) || !h.end(id) {
			return
		}
	}
	h.mu.Lock()
	_ = h.framer.WriteGoAway(0, http2.ErrCodeNo, nil)
	h.mu.Unlock()
}

// deaf sends a message n times, and opens no window for the answers.
func deaf(conn net.Conn, method string, request []byte, n int) {
	h := newHostile(conn)
	message := make([]byte, 5, 5+len(request))
	binary.BigEndian.PutUint32(message[1:], uint32(len(request)))
	message = append(message, request...)
	for i := range uint32(n) {
		if id := 2*i + 1; !h.open(id, method) || !h.send(id, message) || !h.end(id) {
			return
		}
	}
	h.wait()
}

// resources is a request for n resources of Doorman's.
func resources(n int) []byte {
	list := &doormanpb.GetCapacityRequest{ClientId: new("deaf")}
	for i := range n {
		list.Resource = append(list.Resource, &doormanpb.ResourceRequest{ResourceId: new(fmt.Sprint("deaf", i)), Priority: new(int64(1)), Wants: new(1.0)})
	}
	b, _ := proto.Marshal(list)
	return b
}

// resets begins calls and ends them at once.
func resets(conn net.Conn, method string, n int) {
	h := newHostile(conn)
	for i := range uint32(n) {
		if !h.open(2*i+1, method) {
			return
		}
		h.mu.Lock()
		err := h.framer.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		delete(h.windows, 2*i+1)
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// callsAtOnce begins as many calls as a connection may have, each with a header of so many
// bytes, and waits.
func callsAtOnce(conn net.Conn, header int) {
	h := newHostile(conn)
	for i := range uint32(100) {
		if !h.open(2*i+1, allow, [2]string{"x", strings.Repeat("x", header)}) {
			return
		}
	}
	h.wait()
}

// halfSentBody is a request of HTTP/1 with headers as large as they may be, and most of a
// body that counts as small.
var halfSentBody = "POST /v1/allow HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 15<<10) +
	"\r\nContent-Type: application/json\r\nContent-Length: 4096\r\n\r\n" + strings.Repeat(" ", 4000)

// pings sends pings and settings.
func pings(conn net.Conn, n int) {
	h := newHostile(conn)
	for range n {
		h.mu.Lock()
		err := h.framer.WritePing(false, [8]byte{})
		if err == nil {
			err = h.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		}
		h.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// noise sends random bytes.
func noise(conn net.Conn, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // not secret
	b := make([]byte, 1<<16)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	_, _ = conn.Write(b)
	_, _ = io.Copy(io.Discard, conn)
}

// endlessForm sends a file in a form for operators, of 256 MiB, without a token.
func endlessForm(conn net.Conn, path string) {
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	const form = "--b\r\nContent-Disposition: form-data; name=\"text\"; filename=\"f\"\r\n\r\n"
	_, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: %d\r\n\r\n%s", path, 256<<20, form)
	for chunk := make([]byte, 1<<20); err == nil; {
		_, err = conn.Write(chunk) // until the daemon has had enough
	}
}

// halves sends the beginning of something, and waits.
func halves(conn net.Conn, begins string) {
	_, _ = io.WriteString(conn, begins)
	_, _ = io.Copy(io.Discard, conn)
}
