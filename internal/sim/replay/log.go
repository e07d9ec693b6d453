// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/internal/accesslog"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// Bounds of a log, so that memory is bounded whatever its size.
const (
	maxKeys   = 50_000
	maxLine   = 1 << 20
	maxSecond = 1_000_000 // events with one and the same time
	// mostBack is how far a line may be before the one above it, and mostAhead how far
	// after it: a line of another year would make the replay last for that year.
	mostBack  = time.Minute
	mostAhead = 7 * 24 * time.Hour
)

// Log is an access log, turned into events for hosts. Its rows are in a file
// that Close removes; Keys alone are in memory.
type Log struct {
	Keys         []string
	Events       int64
	Bad          int64         // lines that were left out
	WithoutField int64         // events without a field of the key
	NoClient     int64         // events without a client's address, all of which go to one host
	Length       time.Duration // from the first event to the last, as the log has it
	Hosts        int

	file  *os.File
	speed float64
	done  atomic.Int64     // rows that were replayed, by all readers together
	tell  func(rows int64) // nil: nobody wants to know
}

// rowSize is the size of a row in the file: time, key and host.
const rowSize = 16

// remedy is what to do about a line that cannot be read.
func (c Config) remedy(line string) string {
	if name := accesslog.Guess(line); name != "" && name != c.Format {
		return fmt.Sprintf("the line looks like %s: use --format %s", name, name)
	}
	return "to leave out such lines, use --skip-bad"
}

// Read reads a log. Name is for messages.
func (c Config) Read(name string, r io.Reader) (*Log, error) {
	format, err := accesslog.Lookup(c.Format)
	if err != nil {
		return nil, err
	}
	key, err := format.Template(c.Key)
	if err != nil {
		return nil, err
	}
	client, err := format.Template("{ip}")
	if err != nil {
		return nil, err
	}
	if r, err = plain(r); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	file, err := os.CreateTemp("", "headgate-replay")
	if err != nil {
		return nil, err
	}
	l := &Log{Hosts: c.Hosts, file: file, speed: c.Speed}
	w := writer{log: l, out: bufio.NewWriter(file), keys: make(map[string]int32), chance: traffic.Chance(c.Seed, "replay", 0), random: c.By == Random}
	for i := range c.Hosts {
		w.hosts = append(w.hosts, i)
	}
	in := &lines{in: bufio.NewReaderSize(r, maxLine)}
	var firstBad error
	for {
		var line string
		if line, err = in.next(); errors.Is(err, io.EOF) {
			err = w.close()
			break
		}
		if err == nil && strings.TrimSpace(line) == "" {
			continue
		}
		if err != nil && !errors.Is(err, errLong) {
			if err = fmt.Errorf("read %s: %w", name, err); errors.Is(err, io.ErrUnexpectedEOF) {
				err = fmt.Errorf("%w: the log is cut off", err)
			}
			break
		}
		var record accesslog.Record
		if err == nil {
			record, err = format.Line(line)
		}
		if err == nil {
			err = w.add(record.At, key.Of(record), client.Of(record))
		}
		if err == nil {
			l.count(key.Fits(record), w.random || client.Fits(record))
			continue
		}
		err = fmt.Errorf("%s:%d: %w", name, in.n, err)
		if !c.SkipBad || errors.Is(err, errTooMuch) {
			if !errors.Is(err, errTooMuch) {
				err = fmt.Errorf("%w; %s", err, c.remedy(line))
			}
			break
		}
		if l.Bad++; firstBad == nil {
			firstBad = err
		}
	}
	if err == nil && l.Events == 0 {
		if err = fmt.Errorf("%s: has no events", name); firstBad != nil {
			err = fmt.Errorf("no line of %s could be read: %w", name, firstBad)
		}
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	l.Length = w.last.Sub(w.start)
	return l, nil
}

// count counts an event whose line has, or lacks, the fields of the key and the client's
// address.
func (l *Log) count(key, client bool) {
	if !key {
		l.WithoutField++
	}
	if !client && l.Hosts > 1 {
		l.NoClient++
	}
}

// lines reads lines of at most maxLine bytes.
type lines struct {
	in *bufio.Reader
	n  int // of the line that was read last, from 1
}

var errLong = fmt.Errorf("a line of more than %d bytes: is this a log?", maxLine)

// next returns the next line without its end, and errLong in place of one that is too
// long. At the end of the log, the error is io.EOF. A last line that is cut off because
// the log cannot be read to its end is left out.
func (l *lines) next() (string, error) {
	text, err := l.in.ReadSlice('\n')
	long := errors.Is(err, bufio.ErrBufferFull)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.in.ReadSlice('\n')
	}
	last := errors.Is(err, io.EOF) && (len(text) > 0 || long)
	if err != nil && !last {
		return "", err
	}
	if l.n++; long {
		return "", errLong
	}
	line := strings.TrimRight(string(text), "\r\n")
	if l.n == 1 {
		line = strings.TrimPrefix(line, "\ufeff")
	}
	return line, nil
}

// plain is r, unpacked if it is packed with gzip, as rotated logs are.
func plain(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); string(magic) != "\x1f\x8b" { // an error is the next read's too
		return in, nil
	}
	return gzip.NewReader(in)
}

// Close removes the rows.
func (l *Log) Close() {
	_ = l.file.Close()
	_ = os.Remove(l.file.Name())
}

// writer turns requests into rows. Many logs have times of whole seconds, so it
// keeps the events of one time, and spreads those of a whole second over it, as long
// as no line has a finer time.
type writer struct {
	log    *Log
	out    *bufio.Writer
	keys   map[string]int32
	hosts  []int
	chance *rand.Rand
	random bool
	fine   bool // times have fractions of a second

	start, last time.Time
	pending     []pending // at last
}

type pending struct{ key, host int32 }

var errTooMuch = errors.New("is too much")

func (w *writer) add(at time.Time, key, client string) error {
	w.fine = w.fine || at.Nanosecond() != 0
	switch {
	case w.start.IsZero():
		w.start, w.last = at, at
	case at.Before(w.last.Add(-mostBack)):
		return fmt.Errorf("the time %s is more than %s before the line above: sort the log by time", at.Format(time.RFC3339), mostBack)
	case at.After(w.last.Add(mostAhead)):
		return fmt.Errorf("the time %s is %d days after the line above: is one of the two times wrong? If nothing happened for so long, replay the parts of the log", at.Format(time.RFC3339), int(at.Sub(w.last).Hours()/24))
	case at.After(w.last):
		if err := w.flush(); err != nil {
			return err
		}
		w.last = at
	}
	// A line that is a little late counts at the time of the line above.
	n, ok := w.keys[key]
	if !ok {
		if len(w.keys) == maxKeys {
			return fmt.Errorf("%w: more than %d keys: choose a coarser --key, such as {path} or a word for all requests together", errTooMuch, maxKeys)
		}
		n = int32(len(w.keys))
		w.keys[key] = n
		w.log.Keys = append(w.log.Keys, key)
	}
	host := 0
	if w.random {
		host = w.chance.IntN(len(w.hosts))
	} else {
		h := fnv.New64a()
		_, _ = io.WriteString(h, client) // a hash's Write returns no error
		host = traffic.Sticky(h.Sum64(), w.hosts, func(int) bool { return true })
	}
	if len(w.pending) == maxSecond {
		return fmt.Errorf("%w: more than %d events at %s", errTooMuch, maxSecond, at.Format(time.RFC3339))
	}
	w.pending = append(w.pending, pending{n, int32(host)})
	return nil
}

// flush writes the events of the last time.
func (w *writer) flush() error {
	from, width := w.last.Sub(w.start), time.Duration(0)
	if !w.fine {
		width = time.Second
	}
	var row [rowSize]byte
	for i, p := range w.pending {
		at := from + time.Duration((float64(i)+0.5)/float64(len(w.pending))*float64(width))
		binary.LittleEndian.PutUint64(row[:], uint64(float64(at)/w.log.speed))
		binary.LittleEndian.PutUint32(row[8:], uint32(p.key))
		binary.LittleEndian.PutUint32(row[12:], uint32(p.host))
		if _, err := w.out.Write(row[:]); err != nil {
			return err
		}
	}
	w.log.Events += int64(len(w.pending))
	w.pending = w.pending[:0]
	return nil
}

func (w *writer) close() error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.out.Flush()
}

// rows reads the rows, from the first on. Several may read at the same time.
func (l *Log) rows() traffic.RowReader {
	const often = 1 << 14
	in := bufio.NewReaderSize(io.NewSectionReader(l.file, 0, l.Events*rowSize), 64<<10)
	n := 0
	return func() (traffic.TraceRow, bool, error) {
		if n++; n%often == 0 {
			if rows := l.done.Add(often); l.tell != nil {
				l.tell(rows)
			}
		}
		var row [rowSize]byte
		switch _, err := io.ReadFull(in, row[:]); {
		case errors.Is(err, io.EOF):
			return traffic.TraceRow{}, false, nil
		case err != nil:
			return traffic.TraceRow{}, false, fmt.Errorf("read rows: %w", err)
		}
		return traffic.TraceRow{
			At:   traffic.Time(binary.LittleEndian.Uint64(row[:])),
			Key:  int32(binary.LittleEndian.Uint32(row[8:])),
			Host: int32(binary.LittleEndian.Uint32(row[12:])),
			Cost: 1,
		}, true, nil
	}
}
