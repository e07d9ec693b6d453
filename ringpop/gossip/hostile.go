// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// Types of memberlist's messages, their first byte. Without keys, anybody who knows the cluster's
// name can send them. Members of this package compress nothing and send no messages of users.
const (
	pushPullMsg = 6
	compoundMsg = 7
	userMsg     = 8
	compressMsg = 9 // 60 kB of it may take 40 MiB when they are read
	hasCrcMsg   = 12
)

// crcSize is that of the checksum before a packet's message, with its type.
const crcSize = 5

// maxNodes is how many hosts a list may have. memberlist takes 120 bytes for each that is announced,
// before it has read one.
const maxNodes = 1 << 14

// stream is a connection over TCP, of which memberlist reads nothing if its beginning is refused.
type stream struct {
	net.Conn

	checked bool
	err     error        // of the check
	begin   bytes.Buffer // what was checked, and is not read yet
}

// Read implements net.Conn.
func (s *stream) Read(p []byte) (int, error) {
	if !s.checked {
		s.checked = true
		s.err = check(io.TeeReader(s.Conn, &s.begin))
	}
	switch {
	case s.err != nil:
		return 0, s.err
	case s.begin.Len() > 0:
		return s.begin.Read(p)
	}
	return s.Conn.Read(p)
}

// check reads the beginning of a stream: a label, if there is one, the type of a message, and the
// header of a list of hosts. What is encrypted is checked by its key.
func check(r io.Reader) error {
	one := make([]byte, 1)
	next := func() (byte, error) {
		_, err := io.ReadFull(r, one)
		return one[0], err
	}
	kind, err := next()
	if err == nil && kind == labelled {
		var size byte
		if size, err = next(); err == nil {
			if _, err = io.CopyN(io.Discard, r, int64(size)); err == nil {
				kind, err = next()
			}
		}
	}
	switch {
	case err != nil:
		return err
	case kind == compressMsg || kind == userMsg:
		return fmt.Errorf("messages of type %d are refused", kind)
	case kind != pushPullMsg:
		return nil
	}
	var list struct{ Nodes, UserStateLen int }
	if err := codec.NewDecoder(r, new(codec.MsgpackHandle)).Decode(&list); err != nil {
		return err
	}
	if list.Nodes > maxNodes || list.UserStateLen != 0 {
		return fmt.Errorf("a list of %d hosts with %d bytes beside them is refused: there may be %d, and no bytes", list.Nodes, list.UserStateLen, maxNodes)
	}
	return nil
}

// expands reports whether a packet without its label becomes larger when it is read, or cannot be read.
func expands(b []byte) bool {
	if len(b) > crcSize && b[0] == hasCrcMsg {
		b = b[crcSize:]
	}
	if len(b) == 0 || b[0] == compressMsg {
		return true
	}
	if b[0] != compoundMsg {
		return false
	}
	if b = b[1:]; len(b) == 0 || len(b) < 1+2*int(b[0]) {
		return true
	}
	sizes, parts := b[1:1+2*int(b[0])], b[1+2*int(b[0]):]
	for ; len(sizes) > 0; sizes = sizes[2:] {
		n := int(binary.BigEndian.Uint16(sizes))
		if n == 0 || n > len(parts) || parts[0] == compressMsg || parts[0] == compoundMsg {
			return true
		}
		parts = parts[n:]
	}
	return false
}
