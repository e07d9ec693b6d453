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

// lastAnswers remembers the last answers about keys, so that a new owner learns from
// them. It keeps some hundred thousand keys, and drops those first that were not asked for
// recently. It keeps hashes of keys, and not their names: those would take more memory than the
// answers. Two of its keys have the same hash with a probability of less than 1 in 100 million,
// and no caller can choose such keys, because the seed is random. The zero lastAnswers is ready. Safe
// for concurrent use.
type lastAnswers struct {
	once  sync.Once
	seed  maphash.Seed
	parts [16]answersPart
}

// answersPart is a part of the keys. When young is full, it becomes old.
type answersPart struct {
	mu         sync.Mutex // protects following fields
	young, old map[hash]lastAnswer
}

// hash is that of an account.
type hash uint64

// account is one of a key's buckets.
type account struct {
	key      string
	measured bool
}

func accountOf(t *usage.Take) account { return account{t.Key, t.Measured} }

// compare orders a key's buckets beside each other.
func (a account) compare(b account) int {
	return cmp.Or(strings.Compare(a.key, b.key), cmp.Compare(wire.Bit(a.measured), wire.Bit(b.measured)))
}

type lastAnswer struct {
	left   float64
	at     time.Duration
	by     uint32
	failed bool // a take since tokens were last settled with
}

// maxYoung is how many keys become old together.
const maxYoung = 8192

// part is the part that has an account, locked, and the hash of the account.
func (k *lastAnswers) part(of account) (*answersPart, hash) {
	k.once.Do(func() { k.seed = maphash.MakeSeed() })
	h := hash(maphash.String(k.seed, of.key))
	p := &k.parts[h%hash(len(k.parts))]
	if of.measured {
		h = ^h
	}
	p.mu.Lock()
	return p, h
}

func (p *answersPart) find(of hash) lastAnswer {
	if t, ok := p.young[of]; ok {
		return t
	}
	return p.old[of]
}

func (p *answersPart) put(of hash, t lastAnswer) {
	if _, ok := p.young[of]; !ok {
		if len(p.young) >= maxYoung {
			p.old, p.young = p.young, nil
		}
		if p.young == nil {
			p.young = make(map[hash]lastAnswer)
		}
	}
	p.young[of] = t
}

// fill puts the last answer into take.
func (k *lastAnswers) fill(now time.Duration, take *usage.Take) {
	p, h := k.part(accountOf(take))
	defer p.mu.Unlock()

	t := p.find(h)
	if ago := max(now-t.at, 0); t.by != 0 && ago <= rpc.MaxElapsed {
		take.Told, take.By, take.Ago = t.left, t.by, ago
	}
}

// record notes an answer. An owner that does not decide the key says nothing about
// it.
func (k *lastAnswers) record(now time.Duration, of account, took usage.Took, by uint32) {
	if !took.Decided {
		return
	}
	p, h := k.part(of)
	defer p.mu.Unlock()

	p.put(h, lastAnswer{took.Left, now, by, p.find(h).failed})
}

// fails notes that a take failed. settles notes that its tokens were reported
// later. failed reports whether a take has failed since they last were.
func (k *lastAnswers) fails(of account)   { k.setFailed(of, true) }
func (k *lastAnswers) settles(of account) { k.setFailed(of, false) }
func (k *lastAnswers) failed(of account) bool {
	p, h := k.part(of)
	defer p.mu.Unlock()

	return p.find(h).failed
}

func (k *lastAnswers) setFailed(of account, failed bool) {
	p, h := k.part(of)
	defer p.mu.Unlock()

	t := p.find(h)
	if t.failed != failed {
		t.failed = failed
		p.put(h, t)
	}
}
