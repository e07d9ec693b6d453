// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/headgate/headgate/internal/daemon/callers"
)

// literally makes a pattern of a key, that only this key matches.
var literally = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// reset has all members make the bucket of a key full again. Who may change the limit of
// all keys that share the bucket may do so.
func (a *API) reset(w http.ResponseWriter, r *http.Request, who *callers.Caller) (err error) {
	key, err := keyOf(r, who)
	if err != nil {
		return err
	}
	limits := a.Limits.Current()
	operator, shown := cmp.Or(who.Name(), "anyone"), limits.Shown(key)
	defer func() {
		if err != nil {
			a.Log.Warn("a reset was refused", "operator", operator, "from", r.RemoteAddr, "key", shown, "error", err)
		}
	}()
	pattern := literally.Replace(key)
	if rule, ok := limits.Match(key); ok && rule.Shared {
		pattern = rule.Key
	}
	if err := who.MayChange(pattern); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxAnswer)
	defer cancel()
	failed := make(map[string]string)
	for host, err := range a.Reset(ctx, key) {
		failed[host] = err.Error()
	}
	a.Log.Info("a bucket was reset", "operator", operator, "from", r.RemoteAddr, "key", shown, "failed", len(failed))
	a.Events.Add(Event{Kind: "reset", Text: operator + " made the bucket of " + shown + " full again"})
	return send(w, http.StatusOK, map[string]any{"failed": failed})
}
