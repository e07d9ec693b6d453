// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// Taking finds or makes the key that t is from in sh; nil if there is none.
func (ks *Keys) Taking(now time.Duration, sh *Shard, s *rules.Settings, hash uint64, t *usage.Take) *Key {
	name := algorithm.NameExact
	if t.Auto {
		name = algorithm.NameAuto
	}
	if t.Measured {
		name = dynamicconfig.Measured(name)
	}
	rule, name, ok := s.Taken(t.Key, name)
	if !ok {
		return nil
	}
	k, _ := ks.Find(now, sh, s, name, hash, t.Key)
	if k == nil && rules.Disabled(rule) { // the host may have heard already which algorithm answers next
		if of, other := poolOf(sh, hash, t.Key); of != nil {
			k, name = of, other
		}
	}
	if k == nil {
		k = ks.makeTaking(now, sh, s, rule, name, hash, t.Key)
		if k != nil && !t.Handed {
			ks.Began(!t.Measured && t.By != 0 && t.Told+float64(rule.Limit)*t.Ago.Seconds() < rule.Burst)
		}
		return k
	}
	if !ks.Adopt(now, sh, k, s, name, hash) {
		return nil
	}
	return k
}

// poolOf is the pool that the key called text has in sh, whatever its name; nil if there is none.
func poolOf(sh *Shard, hash uint64, text string) (k *Key, name string) {
	for _, name = range rules.Pooled {
		if k = sh.Map(name).Find(hash, text); k != nil {
			break
		}
	}
	return k, name
}

// HasPool reports whether a key that is not under the algorithm called named, and whose rule is disabled, has another
// pool in sh: that goes on once the rule limits again.
func HasPool(sh *Shard, rule *dynamicconfig.Rule, named string, hash uint64, text string) bool {
	if !rules.Disabled(rule) || !rules.IsPooled(named) {
		return false
	}
	k, _ := poolOf(sh, hash, text)
	return k != nil
}

// makeTaking makes a key of rule, if the rule has room for another from which tokens
// are taken one by one.
func (ks *Keys) makeTaking(now time.Duration, sh *Shard, s *rules.Settings, rule *dynamicconfig.Rule, name string, hash uint64, text string) *Key {
	quota := s.Quota(rule, name)
	if !quota.Enter(rule.MaxKeys) {
		ks.NoRoom()
		return nil
	}
	if c, err := s.Config(rule, name); err == nil { // else this owner does not know it
		if k := ks.Make(now, sh, s, c, name, hash, text); k != nil {
			return k
		}
	}
	quota.Add(-1)
	return nil
}
