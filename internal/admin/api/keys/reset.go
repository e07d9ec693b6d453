// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/admin/api/access"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
)

// literally makes a pattern of a key, that only this key matches.
var literally = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// MayChange returns nil if the caller may override the limit of key and fill its bucket, and otherwise the reason why
// not. The keys of a shared rule have one bucket, so a caller must be allowed to change all of them.
func MayChange(limits *dynamicconfig.Snapshot, key string, who *callers.Caller) error {
	if rule, ok := limits.Match(key); ok && rule.Shared {
		return who.MayChange(rule.Key)
	}
	return who.MayChange(literally.Replace(key))
}

// reset has all members make the bucket of a key full again. Who may change the limit of
// all keys that share the bucket may do so. What has no bucket is refused, so that an operator
// who names a pattern, or misspells a key, does not take the incident for mended.
func (a *Answers) reset(w http.ResponseWriter, r *http.Request, who *callers.Caller) (err error) {
	key, err := access.Key(r, who)
	if err != nil {
		return err
	}
	limits := a.Limits.Current()
	operator, shown := cmp.Or(who.Name(), "anyone"), limits.Shown(key)
	defer func() {
		if err != nil {
			a.Log.Log(r.Context(), reply.Level(who, err), "a reset was refused", "operator", operator, "from", r.RemoteAddr, "key", shown, "error", err)
		}
	}()
	if err := MayChange(limits, key, who); err != nil {
		return err
	}
	rule, ok := limits.Match(key)
	switch {
	case !ok:
		return reply.Refuse(http.StatusNotFound, "no rule matches the key %s, so it has no bucket, and nothing was reset: is it spelled right?", shown)
	case forMany(rule, key):
		return reply.Refuse(http.StatusBadRequest, "%s is the pattern of a rule, and each key that it matches has a bucket of its own: name one of these keys. Nothing was reset", key)
	}
	ctx, cancel := context.WithTimeout(r.Context(), reply.MaxWait)
	defer cancel()
	failed := failures(ctx, a.Reset(ctx, key))
	a.Log.Info("a bucket was reset", "operator", operator, "from", r.RemoteAddr, "key", shown, "failed", len(failed))
	a.Events.Add(events.Event{Kind: "reset", Text: operator + " made the bucket of " + shown + " full again"})
	return reply.JSON(w, http.StatusOK, map[string]any{"failed": failed})
}

// forMany reports whether key is the pattern of rule, and each key that the pattern matches has a
// bucket of its own. Then key is not the name of a bucket, but of many.
func forMany(rule *dynamicconfig.Rule, key string) bool {
	return key == rule.Key && rule.IsGlob() && !rule.Shared
}
