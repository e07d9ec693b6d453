// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
)

// totals are what the requests of all connections of a listener hold.
type totals struct {
	bytes atomic.Int64 // of those that have not arrived whole
	more  atomic.Int64 // calls at once beside the first of each connection

	resets resets
	idle   resets // frames that do nothing for a call
}

// requests are those of one connection that have not been answered. Its methods are
// safe for concurrent use.
type requests struct {
	totals *totals

	mu        sync.Mutex // protects following fields
	in, out   frames
	open      map[uint32]request // of HTTP/2; nil: not inspected
	partial   int                // those that have not arrived whole
	bytes     int64              // of those that have not arrived whole, and owed
	owed      int64              // of large answers
	taking    time.Time          // when the client last took a part of what is owed
	spare     int                // frames that may do nothing for a call
	forgotten bool
	heard     time.Time // the last bytes
}

// request is one that the server has not answered.
type request struct {
	began time.Time
	bytes int64
	whole bool
	sent  int // bytes of the answer
}

// Frames of HTTP/2, RFC 9113 section 6.
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameContinuation = 0x9

	flagEndStream = 0x1

	// prefaceLength is that of what a client sends before its first frame.
	prefaceLength = 24
	frameHeader   = 9
)

// Frames that do nothing for a call, such as pings, updates of windows and settings, are part of
// HTTP/2. A client needs some of them as it connects, for each of its calls and for each frame of an
// answer, and has no more in spare than mostSpare.
const (
	spareAtFirst  = 100
	sparePerCall  = 8
	sparePerFrame = 4
	mostSpare     = 4096

	// smallFrame is the size of a part of a request, in bytes, below which a frame does nothing for it,
	// unless it is the last.
	smallFrame = 64
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
// requests of the connection, how many there are, how many requests the client reset
// with p, and how many frames that do nothing are too many. The bytes of a frame count as its header arrives.
func (r *requests) arrived(p []byte, now time.Time) (bytes int64, count, resets, idle int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.heard = now
	for !r.forgotten {
		rest, kind, flags, stream, length, ok := r.in.next(p)
		if !ok {
			break
		}
		p = rest
		last := flags&flagEndStream != 0
		small := length < smallFrame && !last
		switch kind {
		case frameHeaders:
			r.spareLocked(sparePerCall)
			r.beginLocked(stream, now)
			r.growLocked(stream, length, last)
			small = false
		case frameData:
			r.growLocked(stream, length, last)
		case frameContinuation:
			r.growLocked(stream, length, false)
		case frameReset:
			if r.finishLocked(stream) {
				resets++
			}
			small = false
		default:
			small = true
		}
		if small {
			idle++
		}
	}
	r.spareLocked(-idle)
	idle = max(-r.spare, 0)
	r.spare += idle
	return r.bytes, r.partial, resets, idle
}

// spareLocked adds n to the frames that may do nothing.
func (r *requests) spareLocked(n int) { r.spare = min(r.spare+n, mostSpare) }

// sent notes what the server sent: it may end a request before it is whole. sent returns
// how many requests the server reset with p.
func (r *requests) sent(p []byte) (resets int) {
	r.mu.Lock()
	defer r.mu.Unlock()

	for {
		rest, kind, flags, stream, length, ok := r.out.next(p)
		if !ok {
			return resets
		}
		p = rest
		if kind == frameData {
			r.spareLocked(sparePerFrame)
			r.paidLocked(stream, length)
		}
		ends := kind <= frameHeaders && flags&flagEndStream != 0
		if (ends || kind == frameReset) && r.finishLocked(stream) && !ends {
			resets++
		}
	}
}

// beginLocked adds a request, unless it is there: its headers may come in two parts.
func (r *requests) beginLocked(stream uint32, now time.Time) {
	if _, ok := r.open[stream]; ok {
		return
	}
	if r.open[stream] = (request{began: now}); len(r.open) > 1 {
		r.totals.more.Add(1)
	}
	r.partial++
}

// growLocked notes that a request has n bytes more, and whether they are the last. What
// has arrived whole no longer counts here: its server bounds it.
func (r *requests) growLocked(stream uint32, n int, last bool) {
	u, ok := r.open[stream]
	switch {
	case !ok || u.whole:
		return
	case last:
		r.add(-u.bytes)
		r.partial--
		u.bytes, u.whole = 0, true
	default:
		r.add(int64(n))
		u.bytes += int64(n)
	}
	r.open[stream] = u
}

// paidLocked notes that n bytes of an answer were sent. Of what is owed, only large
// answers pay: many small ones must not hide that a client takes no large ones.
func (r *requests) paidLocked(stream uint32, n int) {
	u, ok := r.open[stream]
	if !ok || r.owed == 0 {
		return
	}
	before := u.sent
	u.sent += n
	r.open[stream] = u
	if u.sent <= LargeAnswer {
		return
	}
	if before > LargeAnswer {
		n = u.sent - before
	} else {
		n = u.sent
	}
	paid := min(int64(n), r.owed)
	r.owed -= paid
	r.taking = time.Now()
	r.add(-paid)
}

// owe notes that n bytes are to be sent, and returns how many all requests and answers
// have.
func (r *requests) owe(n int) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()

	if !r.forgotten {
		if r.owed == 0 {
			r.taking = time.Now()
		}
		r.owed += int64(n)
		r.add(int64(n))
	}
	return r.bytes
}

// finishLocked ends a request. It reports whether that had not ended before.
func (r *requests) finishLocked(stream uint32) bool {
	u, ok := r.open[stream]
	if !ok {
		return false
	}
	if len(r.open) > 1 {
		r.totals.more.Add(-1)
	}
	if delete(r.open, stream); !u.whole {
		r.partial--
	}
	r.add(-u.bytes)
	return true
}

func (r *requests) add(bytes int64) {
	if bytes != 0 {
		r.bytes += bytes
		r.totals.bytes.Add(bytes)
	}
}

// hold notes that a request of HTTP/1 takes n bytes more, and returns how many it takes.
func (r *requests) hold(n int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()

	if !r.forgotten {
		r.add(n)
	}
	return r.bytes
}

// answered notes that the request of HTTP/1 was answered.
func (r *requests) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.add(-r.bytes)
}

// forget takes all requests out of the totals, as their connection ends.
func (r *requests) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()

	if more := len(r.open) - 1; more > 0 {
		r.totals.more.Add(-int64(more))
	}
	r.forgotten, r.partial, r.owed = true, 0, 0
	r.add(-r.bytes)
	clear(r.open)
}

// held is how many bytes the unfinished requests have, and how many calls there are
// beside the first.
func (r *requests) held() (bytes, more int64) {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.bytes, max(int64(len(r.open))-1, 0)
}

// late reports whether a request began, and did not end, or a client takes no part of a
// large answer, or nothing came at all, for longer than l says. Only what is inspected is ever late.
func (r *requests) late(now time.Time, l Limits) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	switch {
	case r.open == nil:
		return false
	case now.Sub(r.heard) > l.Idle:
		return true
	case r.owed > 0 && now.Sub(r.taking) > l.Receive:
		return true
	case r.partial == 0:
		return false
	}
	for _, u := range r.open {
		if !u.whole && now.Sub(u.began) > l.Receive {
			return true
		}
	}
	return false
}
