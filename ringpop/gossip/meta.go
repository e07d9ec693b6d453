// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/hashicorp/memberlist"
)

// meta is what a host says of itself beside its address, which is its name.
// On the wire it is a byte with the version, and fields: a byte with the
// field's number, a byte with its length, and so many bytes. Unknown fields
// are skipped. A change that hosts of this version would misread has another version.
type meta struct {
	Identity string
	Labels   string
	Observer bool // owns no keys
	Leaving  bool // owns no keys any more
	Waiting  marks
}

// marks are hosts that this one has wait, because it has lost them too often: a mark of each.
type marks string

// markOf is four bytes that tell address from others, almost surely.
func markOf(address string) marks {
	h := fnv.New32a()
	_, _ = h.Write([]byte(address))
	return marks(h.Sum(nil))
}

// has reports whether address is among m.
func (m marks) has(address string) bool {
	for mark := markOf(address); len(m) >= len(mark); m = m[len(mark):] {
		if strings.HasPrefix(string(m), string(mark)) {
			return true
		}
	}
	return false
}

// withWaiting returns m with the marks of hosts, as many as there is room for.
func (m meta) withWaiting(hosts []string) meta {
	for _, address := range hosts {
		more := m
		more.Waiting += markOf(address)
		if _, err := more.encode(); err != nil {
			break
		}
		m = more
	}
	return m
}

const metaVersion = 1

// The numbers of the fields.
const (
	fieldIdentity = 1
	fieldLabels   = 2
	fieldObserver = 3
	fieldLeaving  = 4
	fieldWaiting  = 5
)

// maxField is the longest value of a field.
const maxField = 255

var errMeta = errors.New("gossip: what the host says of itself cannot be read")

// encode returns m on the wire. Texts must be within maxField, and all within
// memberlist.MetaMaxSize.
func (m meta) encode() ([]byte, error) {
	b := []byte{metaVersion}
	for _, f := range []struct {
		number byte
		value  string
	}{{fieldIdentity, m.Identity}, {fieldLabels, m.Labels}, {fieldObserver, flag(m.Observer)}, {fieldLeaving, flag(m.Leaving)}, {fieldWaiting, string(m.Waiting)}} {
		if len(f.value) > maxField {
			return nil, fmt.Errorf("gossip: the identity or the labels of this host have %d bytes: use at most %d", len(f.value), maxField)
		}
		if f.value != "" {
			b = append(append(b, f.number, byte(len(f.value))), f.value...)
		}
	}
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("gossip: the identity and the labels of this host have %d bytes on the wire: use at most %d", len(b), memberlist.MetaMaxSize)
	}
	return b, nil
}

func flag(set bool) string {
	if set {
		return "\x01"
	}
	return ""
}

// decodeMeta reads what a host says of itself. Of two fields with one number
// the last counts.
func decodeMeta(b []byte) (meta, error) {
	var m meta
	if len(b) == 0 || len(b) > memberlist.MetaMaxSize {
		return m, fmt.Errorf("%w: it has %d bytes of 1 to %d", errMeta, len(b), memberlist.MetaMaxSize)
	}
	if b[0] != metaVersion {
		return m, fmt.Errorf("%w: version %d, and this host knows %d: run the same release on all hosts", errMeta, b[0], metaVersion)
	}
	for b = b[1:]; len(b) > 0; {
		if len(b) < 2 || len(b) < 2+int(b[1]) {
			return meta{}, fmt.Errorf("%w: it ends within a field", errMeta)
		}
		number, value := b[0], string(b[2:2+int(b[1])])
		b = b[2+len(value):]
		switch number {
		case fieldIdentity:
			m.Identity = value
		case fieldLabels:
			m.Labels = value
		case fieldObserver:
			m.Observer = value == flag(true)
		case fieldLeaving:
			m.Leaving = value == flag(true)
		case fieldWaiting:
			m.Waiting = marks(value)
		}
	}
	return m, nil
}
