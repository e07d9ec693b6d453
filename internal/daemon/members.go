// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/ringpop"
)

// lookEvery is how often the file of members is read, in case the system tells nothing of
// changes.
const lookEvery = 500 * time.Millisecond

// maxMembersFile bounds the file of members, in bytes.
const maxMembersFile = 1 << 20

// membersFile follows a file of addresses. A file that is broken, empty, gone or being
// written changes nothing; one that is empty at first is waited for. So is one that
// does not list self: once it has, a list without self says that this decider leaves.
type membersFile struct {
	path    string
	self    string
	options filewatch.Options
	log     *slog.Logger
}

var _ ringpop.Members = (*membersFile)(nil)

// Watch calls update with the hosts in the file, and again when they change.
func (m *membersFile) Watch(ctx context.Context, update func(hosts []ringpop.Host)) error {
	l := &listing{membersFile: m, update: update}
	filewatch.Files(ctx, []string{m.path}, m.options, l.look)
	return nil
}

// listing is one call of Watch; one goroutine uses it.
type listing struct {
	*membersFile

	update func(hosts []ringpop.Host)
	last   []byte
	within bool   // self has been listed
	broken string // the last error
	logged bool   // it was logged
}

// look reads the file. What is broken is read a second time before that is logged: it may
// be half-way to something better.
func (l *listing) look() (again bool) {
	hosts, text, err := readMembers(l.path)
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
			l.log.Error("members cannot be used, the last good list stays", "error", err)
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
	listed := slices.ContainsFunc(hosts, func(h ringpop.Host) bool { return h.Address == l.self })
	switch {
	case len(hosts) == 0:
		return fmt.Errorf("members: %s lists nobody", l.path)
	case !listed && !l.within:
		return fmt.Errorf("members: %s does not list this decider, %s: add it, or give the listed address as --address", l.path, l.self)
	}
	l.within = true
	return nil
}

// bom is what some editors begin a file of UTF-8 with. It is no part of an address.
const bom = "\ufeff"

// readMembers reads the hosts in a file, and its text. Errors name the line.
func readMembers(path string) (hosts []ringpop.Host, text []byte, err error) {
	text, err = filewatch.Read(path, maxMembersFile)
	if err != nil {
		return nil, nil, fmt.Errorf("members: %w", err)
	}
	if len(text) > maxMembersFile {
		return nil, nil, fmt.Errorf("members: %s has more than %d bytes", path, maxMembersFile)
	}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), bom)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if host, port, err := net.SplitHostPort(line); err != nil || host == "" || port == "" {
			return nil, nil, fmt.Errorf("members: %s:%d: %.100q is not host:port; write one address a line", path, n, line)
		}
		hosts = append(hosts, ringpop.Host{Address: line})
	}
	if err := ringpop.Validate(hosts); err != nil {
		return nil, nil, fmt.Errorf("members: %s: %w", path, err)
	}
	return hosts, text, nil
}
