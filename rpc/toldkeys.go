// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"hash/maphash"
	"sync"
	"time"
)

// toldKeys remembers what owners told last of keys, so that a new owner learns
// from it. It remembers some hundred thousand; those asked for least lately go
// first. The zero toldKeys is ready. Safe for concurrent use.
type toldKeys struct {
	once  sync.Once
	seed  maphash.Seed
	parts [16]toldPart
}

// toldPart is a part of the keys. When young is full, it becomes old.
type toldPart struct {
	mu         sync.Mutex // protects following fields
	young, old map[string]told
}

type told struct {
	left   float64
	at     time.Duration
	by     uint32
	failed bool // a take since tokens were last settled with
}

const maxYoung = 8192

func (k *toldKeys) part(key string) *toldPart {
	k.once.Do(func() { k.seed = maphash.MakeSeed() })
	p := &k.parts[maphash.String(k.seed, key)%uint64(len(k.parts))]
	p.mu.Lock()
	return p
}

func (p *toldPart) find(key string) told {
	if t, ok := p.young[key]; ok {
		return t
	}
	return p.old[key]
}

func (p *toldPart) put(key string, t told) {
	if _, ok := p.young[key]; !ok && len(p.young) >= maxYoung {
		p.old, p.young = p.young, nil
	}
	if p.young == nil {
		p.young = make(map[string]told)
	}
	p.young[key] = t
}

// fill says in take what was told.
func (k *toldKeys) fill(now time.Duration, take *Take) {
	p := k.part(take.Key)
	defer p.mu.Unlock()

	take.Told, take.By, take.Ago = 0, 0, 0
	t := p.find(take.Key)
	if ago := max(now-t.at, 0); t.by != 0 && ago <= MaxElapsed {
		take.Told, take.By, take.Ago = t.left, t.by, ago
	}
}

// hear notes what was told. An owner that does not decide tells nothing.
func (k *toldKeys) hear(now time.Duration, key string, took Took, by uint32) {
	if !took.Decided {
		return
	}
	p := k.part(key)
	defer p.mu.Unlock()

	p.put(key, told{took.Left, now, by, p.find(key).failed})
}

// fails notes that a take of key failed, and settles that it is settled with;
// failed tells whether one did since.
func (k *toldKeys) fails(key string)   { k.setFailed(key, true) }
func (k *toldKeys) settles(key string) { k.setFailed(key, false) }
func (k *toldKeys) failed(key string) bool {
	p := k.part(key)
	defer p.mu.Unlock()

	return p.find(key).failed
}

func (k *toldKeys) setFailed(key string, failed bool) {
	p := k.part(key)
	defer p.mu.Unlock()

	t := p.find(key)
	if t.failed != failed {
		t.failed = failed
		p.put(key, t)
	}
}
