// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/measure"
)

// oracle is the keys, and the buckets that see every event.
type oracle struct {
	keys    []*key
	keyOf   map[string]int
	buckets []*measure.Bucket
	marks   []measure.Mark
	lean    bool // keys keep sums alone
}

// key is one key that has traffic.
type key struct {
	name   string
	bucket *measure.Bucket
}

// findKeys numbers all keys that have traffic.
func (c *cluster) findKeys() error {
	byName := make(map[string]*measure.Bucket)
	add := func(name string) (int, error) {
		if n, ok := c.keyOf[name]; ok {
			return n, nil
		}
		rule, ok := c.Newest().Match(name)
		if !ok {
			return 0, fmt.Errorf("no rule matches the key %q, which has traffic: add one to limits", name)
		}
		of := rule.BucketKey(name)
		b := byName[of]
		if b == nil {
			b = measure.NewBucket(of, algorithmOf(rule), float64(rule.Limit), rule.Burst, c.sc.Warmup, c.sc.Duration)
			if c.lean {
				b.Lean()
			}
			byName[of] = b
			c.buckets = append(c.buckets, b)
		}
		c.keyOf[name] = len(c.keys)
		c.keys = append(c.keys, &key{name, b})
		return len(c.keys) - 1, nil
	}
	for i := range c.sc.Sources {
		s := &c.sc.Sources[i]
		c.sourceKeys = append(c.sourceKeys, -1)
		for client := range s.KeyCount() {
			n, err := add(s.KeyOf(client))
			if err != nil {
				return err
			}
			if client == 0 {
				c.sourceKeys[i] = n
			} else if n != c.sourceKeys[i]+client {
				return fmt.Errorf("another source has the key %q: give each source with clients keys of its own", s.KeyOf(client))
			}
		}
	}
	if t := c.sc.Trace; t != nil {
		for _, name := range t.Keys {
			n, err := add(name)
			if err != nil {
				return err
			}
			c.traceKeys = append(c.traceKeys, n)
		}
	}
	if n := len(c.buckets) * int(c.sc.Duration.Seconds()); n > maxKeySeconds && !c.lean {
		return fmt.Errorf("%d keys for %s need too much memory: use fewer keys or a shorter duration, at most %d keys × seconds",
			len(c.buckets), c.sc.Duration, maxKeySeconds)
	}
	return nil
}

// algorithmOf is what a rule's keys are shared by, for people.
func algorithmOf(rule *dynamicconfig.Rule) string {
	if m := rule.Migration; m != nil {
		return fmt.Sprintf("%s>%s:%s", m.From, m.To, m.Mode)
	}
	return rule.Algorithm
}
