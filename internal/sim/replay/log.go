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
	"time"

	"github.com/headgate/headgate/internal/accesslog"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// Bounds of a log, so that memory is bounded whatever its size.
const (
	maxKeys   = 50_000
	maxLine   = 1 << 20
	maxSecond = 1_000_000 // events with one and the same time
	// mostBack is how far a line may be before the one above it.
	mostBack = time.Minute
)

// Log is an access log, turned into events for hosts. Its rows are in a file
// that Close removes; Keys alone are in memory.
type Log struct {
	Keys         []string
	Events       int64
	Bad          int64         // lines that were left out
	WithoutField int64         // events without a field of the key
	Length       time.Duration // from the first event to the last, as the log has it
	Hosts        int

	file  *os.File
	speed float64
}

// rowSize is the size of a row in the file: time, key and host.
const rowSize = 16

// remedy is what to do about a line that cannot be read.
func (c Config) remedy(line string) string {
	if c.Format != "json" && strings.HasPrefix(line, "{") {
		return "the line looks like JSON: use --format json"
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
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	n, line := 0, ""
	var firstBad error
	for lines.Scan() && err == nil {
		n++
		line = strings.TrimRight(lines.Text(), "\r")
		if strings.TrimSpace(line) == "" {
			continue
		}
		var record accesslog.Record
		if record, err = format.Line(line); err == nil {
			if err = w.add(record.At, key.Of(record), client.Of(record)); err == nil && !key.Fits(record) {
				l.WithoutField++
			}
		}
		if err != nil && c.SkipBad && !errors.Is(err, errTooMuch) {
			if l.Bad++; firstBad == nil {
				firstBad = fmt.Errorf("%s:%d: %w", name, n, err)
			}
			err = nil
		}
	}
	switch {
	case errors.Is(err, errTooMuch):
		err = fmt.Errorf("%s:%d: %w", name, n, err)
	case err != nil:
		err = fmt.Errorf("%s:%d: %w; %s", name, n, err, c.remedy(line))
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		err = fmt.Errorf("%s:%d: a line of more than %d bytes: is this a log?", name, n+1, maxLine)
	case lines.Err() != nil:
		err = fmt.Errorf("read %s: %w", name, lines.Err())
	default:
		err = w.close()
		if err == nil && l.Events == 0 {
			if err = fmt.Errorf("%s: has no events", name); firstBad != nil {
				err = fmt.Errorf("no line of %s could be read: %w", name, firstBad)
			}
		}
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	l.Length = w.last.Sub(w.start)
	return l, nil
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
// keeps the events of one time, and spreads those of a whole second over it.
type writer struct {
	log    *Log
	out    *bufio.Writer
	keys   map[string]int32
	hosts  []int
	chance *rand.Rand
	random bool

	start, last time.Time
	pending     []pending // at last
}

type pending struct{ key, host int32 }

var errTooMuch = errors.New("is too much")

func (w *writer) add(at time.Time, key, client string) error {
	switch {
	case w.start.IsZero():
		w.start, w.last = at, at
	case at.Before(w.last.Add(-mostBack)):
		return fmt.Errorf("the time %s is more than %s before the line above: sort the log by time", at.Format(time.RFC3339), mostBack)
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
	if w.last.Nanosecond() == 0 {
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
	in := bufio.NewReaderSize(io.NewSectionReader(l.file, 0, l.Events*rowSize), 64<<10)
	return func() (traffic.TraceRow, bool, error) {
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
