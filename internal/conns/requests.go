// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
)

// requests are those of one connection of HTTP/2 whose bodies have not arrived
// whole. Its methods are safe for concurrent use.
type requests struct {
	total *atomic.Int64 // bytes, over all connections of a listener

	mu         sync.Mutex // protects following fields
	in, out    frames
	unfinished map[uint32]request
	bytes      int64
	resets     int // by the client, since resetting
	resetting  time.Time
	forgotten  bool
	heard      time.Time // the last bytes; zero: not inspected
}

// request is one whose end has not come.
type request struct {
	began time.Time
	bytes int64
}

// Frames of HTTP/2, RFC 9113 section 6.
const (
	frameData    = 0x0
	frameHeaders = 0x1
	frameReset   = 0x3

	flagEndStream = 0x1

	// prefaceLength is that of what a client sends before its first frame.
	prefaceLength = 24
	frameHeader   = 9

	// resetsWithin is the time for which Limits.Resets are counted.
	resetsWithin = 10 * time.Second
)

// frames finds the frames in a stream of bytes that comes in pieces.
type frames struct {
	skip   int // bytes before the next header
	header [frameHeader]byte
	have   int // bytes of header
}

// next reads p up to the end of the next frame's header. ok is false if p ends
// before that.
func (f *frames) next(p []byte) (rest []byte, kind, flags byte, stream uint32, length int, ok bool) {
	n := min(f.skip, len(p))
	f.skip -= n
	p = p[n:]
	n = copy(f.header[f.have:], p)
	f.have += n
	p = p[n:]
	if f.have < frameHeader {
		return nil, 0, 0, 0, 0, false
	}
	f.have = 0
	h := &f.header
	length = int(h[0])<<16 | int(h[1])<<8 | int(h[2])
	f.skip = length
	return p, h[3], h[4], binary.BigEndian.Uint32(h[5:]) &^ (1 << 31), length, true
}

// arrived notes what the client sent. It returns the bytes of all unfinished
// requests of the connection, how many there are, and how many the client ended
// itself in resetsWithin. The bytes of a frame count as its header arrives.
func (r *requests) arrived(p []byte, now time.Time) (bytes int64, count, resets int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.heard = now
	for !r.forgotten {
		rest, kind, flags, stream, length, ok := r.in.next(p)
		if !ok {
			break
		}
		p = rest
		switch kind {
		case frameHeaders:
			if _, ok := r.unfinished[stream]; !ok && flags&flagEndStream == 0 {
				r.unfinished[stream] = request{began: now}
			}
		case frameReset:
			if now.Sub(r.resetting) >= resetsWithin {
				r.resets, r.resetting = 0, now
			}
			r.resets++
		case frameData:
			if u, ok := r.unfinished[stream]; ok {
				u.bytes += int64(length)
				r.unfinished[stream] = u
				r.add(int64(length))
			}
		}
		if kind == frameReset || kind <= frameHeaders && flags&flagEndStream != 0 {
			r.finishLocked(stream)
		}
	}
	return r.bytes, len(r.unfinished), r.resets
}

// sent notes what the server sent: it may end a request before it is whole.
func (r *requests) sent(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()

	for {
		rest, kind, _, stream, _, ok := r.out.next(p)
		if !ok {
			return
		}
		p = rest
		if kind == frameReset {
			r.finishLocked(stream)
		}
	}
}

func (r *requests) finishLocked(stream uint32) {
	if u, ok := r.unfinished[stream]; ok {
		delete(r.unfinished, stream)
		r.add(-u.bytes)
	}
}

func (r *requests) add(bytes int64) {
	r.bytes += bytes
	r.total.Add(bytes)
}

// forget takes all requests out of the total, as their connection ends.
func (r *requests) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.forgotten = true
	r.add(-r.bytes)
	clear(r.unfinished)
}

// held is how many bytes the unfinished requests have.
func (r *requests) held() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.bytes
}

// late reports whether a request began, and did not end, or nothing came at all,
// for longer than l says.
func (r *requests) late(now time.Time, l Limits) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.heard.IsZero() {
		return false
	}
	if now.Sub(r.heard) > l.Idle {
		return true
	}
	for _, u := range r.unfinished {
		if now.Sub(u.began) > l.Receive {
			return true
		}
	}
	return false
}
