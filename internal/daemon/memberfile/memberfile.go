// SPDX-License-Identifier: Apache-2.0

// Package memberfile follows a file with the addresses of all deciders, one a line:
//
//	members := &memberfile.Members{Path: "members.txt", Self: "10.0.0.7:7933", Log: log}
//	err := members.Watch(ctx, update)
//
// Out of scope: whether the hosts answer (ringpop/health).
package memberfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/ringpop"
)

// lookEvery is how often the file of members is read, in case the system reports no
// changes.
const lookEvery = 500 * time.Millisecond

// maxSize bounds the file, in bytes.
const maxSize = 1 << 20

// Members follow a file of addresses. A file that is broken, empty, gone or being
// written changes nothing; one that is empty at first is waited for. So is one that
// does not list Self: once it has, a list without Self says that this decider leaves.
type Members struct {
	Path string
	Self string // this decider's address
	Log  *slog.Logger

	deaf bool // the system reports no changes, for tests
}

var _ ringpop.Members = (*Members)(nil)

// Watch calls update with the hosts in the file, and again when they change.
func (m *Members) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	l := &listing{Members: m, update: update}
	filewatch.Files(ctx, []string{m.Path}, filewatch.Options{Poll: lookEvery, Deaf: m.deaf, Log: m.Log}, l.look)
	return nil
}

// listing is one call of Watch; one goroutine uses it.
type listing struct {
	*Members

	update func(hosts []ringpop.Host)
	last   []byte // of the last good list; nil: there was none
	within bool   // self has been listed
	broken string // the last error
	logged bool   // it was logged
}

// look reads the file. What is broken is read a second time before that is logged: it may
// be half-way to something better.
func (l *listing) look() (again bool) {
	hosts, text, err := Read(l.Path)
	if errors.Is(err, filewatch.ErrWriting) {
		return true
	}
	if err == nil {
		err = l.check(hosts)
	}
	if err != nil {
		if err.Error() != l.broken {
			l.broken, l.logged = err.Error(), false
			return true
		}
		if !l.logged {
			l.logged = true
			message := "members cannot be used, the last good list stays"
			if l.last == nil {
				message = "members cannot be used, and this decider waits for its first list"
			}
			l.Log.Error(message, "error", err)
		}
		return false
	}
	l.broken = ""
	if !bytes.Equal(text, l.last) {
		l.last = text
		l.update(hosts)
	}
	return false
}

// check returns why hosts cannot be a list of members.
func (l *listing) check(hosts []ringpop.Host) error {
	listed := slices.ContainsFunc(hosts, func(h ringpop.Host) bool { return h.Address == l.Self })
	switch {
	case len(hosts) == 0:
		return fmt.Errorf("members: %s lists no host", l.Path)
	case !listed && !l.within:
		return fmt.Errorf("members: %s does not list this decider, %s: add it, or give the listed address as --address", l.Path, l.Self)
	}
	l.within = true
	return nil
}

// Read returns the hosts in a file, and its text. Errors name the line.
func Read(path string) (hosts []ringpop.Host, text []byte, err error) {
	text, err = filewatch.Read(path, maxSize)
	if err != nil {
		return nil, nil, fmt.Errorf("members: %w", err)
	}
	if len(text) > maxSize {
		return nil, nil, fmt.Errorf("members: %s has more than %d bytes", path, maxSize)
	}
	hosts, err = parseMembers(path, text)
	return hosts, text, err
}

// parseMembers reads the hosts in text, which the file at path has.
func parseMembers(path string, text []byte) (hosts []ringpop.Host, err error) {
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if err := ringpop.CheckAddress("address", line); err != nil {
			return nil, fmt.Errorf("members: %s:%d: %.200s, one in a line", path, n, err.Error())
		}
		hosts = append(hosts, ringpop.Host{Address: line})
	}
	if err := ringpop.Validate(hosts); err != nil {
		return nil, fmt.Errorf("members: %s: %w", path, err)
	}
	return hosts, nil
}
