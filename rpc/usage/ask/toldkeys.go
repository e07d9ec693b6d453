// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"cmp"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/wire"
	"github.com/headgate/headgate/rpc/usage"
)

// toldKeys remembers the last answers about keys, so that a new owner learns from
// them. It keeps some hundred thousand keys, or fewer if their names are long, and drops
// those first that were not asked for lately. The zero toldKeys is ready. Safe for concurrent use.
type toldKeys struct {
	once  sync.Once
	seed  maphash.Seed
	parts [16]toldPart
}

// toldPart is a part of the keys. When young is full, it becomes old.
type toldPart struct {
	mu         sync.Mutex // protects following fields
	young, old map[account]told
	names      int // bytes of the names in young
}

// account is one of a key's buckets.
type account struct {
	key  string
	auto bool
}

func accountOf(t *usage.Take) account { return account{t.Key, t.Auto} }

// compare orders a key's buckets beside each other.
func (a account) compare(b account) int {
	return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(wire.Bit(a.auto), wire.Bit(b.auto)))
}

type told struct {
	left   float64
	at     time.Duration
	by     uint32
	failed bool // a take since tokens were last settled with
}

const (
	// maxYoung is how many keys become old together, or fewer if their names have
	// maxNames bytes: callers choose names.
	maxYoung = 8192
	maxNames = maxYoung * 128
)

func (k *toldKeys) part(of account) *toldPart {
	k.once.Do(func() { k.seed = maphash.MakeSeed() })
	p := &k.parts[maphash.String(k.seed, of.key)%uint64(len(k.parts))]
	p.mu.Lock()
	return p
}

func (p *toldPart) find(of account) told {
	if t, ok := p.young[of]; ok {
		return t
	}
	return p.old[of]
}

func (p *toldPart) put(of account, t told) {
	if _, ok := p.young[of]; !ok {
		if len(p.young) >= maxYoung || p.names+len(of.key) > maxNames {
			p.old, p.young, p.names = p.young, nil, 0
		}
		p.names += len(of.key)
		if p.young == nil {
			p.young = make(map[account]told)
		}
		of.key = strings.Clone(of.key) // it may be a piece of a message
	}
	p.young[of] = t
}

// fill puts the last answer into take.
func (k *toldKeys) fill(now time.Duration, take *usage.Take) {
	p := k.part(accountOf(take))
	defer p.mu.Unlock()

	take.Told, take.By, take.Ago = 0, 0, 0
	t := p.find(accountOf(take))
	if ago := max(now-t.at, 0); t.by != 0 && ago <= rpc.MaxElapsed {
		take.Told, take.By, take.Ago = t.left, t.by, ago
	}
}

// hear notes an answer. An owner that does not decide the key says nothing about
// it.
func (k *toldKeys) hear(now time.Duration, of account, took usage.Took, by uint32) {
	if !took.Decided {
		return
	}
	p := k.part(of)
	defer p.mu.Unlock()

	p.put(of, told{took.Left, now, by, p.find(of).failed})
}

// fails notes that a take failed. settles notes that its tokens were reported
// later. failed reports whether a take has failed since they last were.
func (k *toldKeys) fails(of account)   { k.setFailed(of, true) }
func (k *toldKeys) settles(of account) { k.setFailed(of, false) }
func (k *toldKeys) failed(of account) bool {
	p := k.part(of)
	defer p.mu.Unlock()

	return p.find(of).failed
}

func (k *toldKeys) setFailed(of account, failed bool) {
	p := k.part(of)
	defer p.mu.Unlock()

	t := p.find(of)
	if t.failed != failed {
		t.failed = failed
		p.put(of, t)
	}
}
