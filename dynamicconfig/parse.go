// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/decode"
	"github.com/headgate/headgate/dynamicconfig/internal/memo"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

// Bounds of config files, in bytes. They bound the memory that a file takes while it is read.
const (
	// MaxSize is the largest config file in any form.
	MaxSize = decode.MaxSize
	// MaxLargeSize is the largest file whose rules are written plainly, as docs/config.md
	// describes: more than 200,000 rules.
	MaxLargeSize = decode.MaxLargeSize
)

// Parse reads a config file; docs/config.md describes its fields. name is
// for messages, usually the file's path. The error joins an *Error, with
// line, column and a caret, for each mistake that could be told apart, at
// most 20. Unknown fields and fields given twice are mistakes, and so is a
// file without content: a file that an editor just emptied must not lift
// all limits. Parse keeps no part of data.
func Parse(name string, data []byte) (*Snapshot, error) {
	s, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// ParseChecked is Parse with a check of the caller's, such as of the algorithms that
// there are. check is called for a file with mistakes too, so that one error has
// all mistakes, in the order of the text: the Snapshot then lacks what has a mistake.
func ParseChecked(name string, data []byte, check func(*Snapshot) error) (*Snapshot, error) {
	s, err := parse(name, data)
	if s != nil {
		err = inOrder(err, check(s))
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// parsed are the newest Snapshots of large texts, and folders those of several files: what stays in the next one is not
// read again. A change has one text parsed at several places.
var parsed, folders memo.Memo[Snapshot]

// largeText is how many bytes take a while to parse.
const largeText = 1 << 16

// parse is Parse that also returns, beside an error, the Snapshot of what has no mistake;
// nil if the text could not be read.
func parse(name string, data []byte) (*Snapshot, error) {
	large := len(data) >= largeText
	var before *build.Content
	if large {
		if s := parsed.Find(func(s *Snapshot) bool { return s.origin.text == string(data) }); s != nil {
			named := *s
			named.origin.name, named.origin.first = name, s
			return &named, nil
		}
		if s := parsed.Nearest(func(s *Snapshot) int { return max(len(s.origin.text)-len(data), len(data)-len(s.origin.text)) }); s != nil {
			before = &s.content
		}
	}
	r := decode.Parse(data, before)
	o := origin{name: name, text: r.Text}
	if r.Content == nil {
		return nil, o.err(r.Problems)
	}
	s, err := snapshotOf(o, r.Problems, r.Content)
	if large && err == nil {
		parsed.Add(s)
	}
	return s, err
}

// File is one of several config files that are one configuration together.
type File struct {
	// Name is for messages, and different in each file.
	Name string
	Data []byte
}

// ParseFiles reads several config files as one configuration, which is called name. Their
// rules follow each other in the order of files. The defaults of rules hold in their file
// only. One file may have the cluster's own settings, such as update_interval, and one may have
// unmatched. A key or the name of a property that two files have is a mistake, as is no file at
// all. For the rest, see Parse. Each file has at most MaxSize bytes, and all of them MaxLargeSize.
func ParseFiles(name string, files []File) (*Snapshot, error) {
	size := 0
	for _, f := range files {
		if size += len(f.Data); len(f.Data) > MaxSize {
			return nil, &Error{Name: f.Name, Message: fmt.Sprintf("has %d bytes: use at most %d, and more files", len(f.Data), MaxSize)}
		}
	}
	switch {
	case len(files) == 0:
		return nil, &Error{Name: name, Message: "has no file: write one with limits: [] to have no limits"}
	case size > MaxLargeSize:
		return nil, &Error{Name: name, Message: fmt.Sprintf("has %d bytes: use at most %d", size, MaxLargeSize)}
	}
	texts := make([]decode.File, len(files))
	for i, f := range files {
		texts[i] = decode.File(f)
	}
	before, earlier := []decode.Read(nil), (*build.Content)(nil)
	if s := folders.Find(func(s *Snapshot) bool { return s.origin.name == name }); s != nil {
		before, earlier = s.read, &s.content
	}
	read, whole := decode.Files(texts, before, earlier)
	parts, errs := make([]*Snapshot, len(files)), make([]error, len(files))
	for i, r := range read {
		o := origin{name: files[i].Name, text: r.Text}
		parts[i], errs[i] = &Snapshot{origin: o, content: *r.Content}, o.err(r.Problems)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	s, err := snapshotOf(origin{name: name}, whole.Problems, whole.Content)
	if err != nil {
		return nil, err
	}
	s.parts, s.read = parts, read
	folders.Add(s)
	return s, nil
}

// RuleFields are the names of the fields that a rule may have in a config file, sorted.
func RuleFields() []string { return decode.RuleFields() }

// ParseLimit reads a limit as the config file writes it: events per second,
// minute, hour or day, `1000/s`, `5/m`, `1.5e3 / h`, `10000/d`. The result is events/s and
// may be anything that float64 holds: whether a limit is possible is for
// Config to say.
func ParseLimit(text string) (rate.Limit, error) { return quantity.ParseLimit(text) }

// ParseDuration reads a duration as time.ParseDuration does, and days too:
// `90s`, `1h30m`, `2d`, `1d12h`.
func ParseDuration(text string) (time.Duration, error) { return quantity.ParseDuration(text) }
