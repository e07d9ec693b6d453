// SPDX-License-Identifier: Apache-2.0

package versions

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/headgate/headgate/dynamicconfig/edit"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
)

// maxRule bounds the fields of one rule, in bytes.
const maxRule = 64 << 10

// putRule sets fields of one rule, or adds the rule. The rest of the text stays as it is.
func (a *Answers) putRule(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	var wanted map[string]any
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRule)).Decode(&wanted); err != nil || len(wanted) == 0 {
		return reply.Refuse(http.StatusBadRequest, `send fields of the rule, as in {"limit": "200/s", "burst": null}; null takes a field away`)
	}
	var fields []edit.Field
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		f := edit.Field{Name: name}
		switch v := wanted[name].(type) {
		case nil:
		case string:
			f.Value = v
		case bool, float64:
			f.Value = fmt.Sprint(v)
		default:
			return reply.Refuse(http.StatusBadRequest, "%.40q: write it as a text, as a limits file has it", name)
		}
		fields = append(fields, f)
	}
	key := r.URL.Query().Get("key")
	return a.changeRule(w, r, who, key, func(text string) (string, error) { return edit.Set(text, key, fields...) })
}

// deleteRule takes one rule away.
func (a *Answers) deleteRule(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	key := r.URL.Query().Get("key")
	return a.changeRule(w, r, who, key, func(text string) (string, error) { return edit.Remove(text, key) })
}

// changeRule makes what f makes of the newest version the newest.
func (a *Answers) changeRule(w http.ResponseWriter, r *http.Request, who *callers.Caller, key string, f func(text string) (string, error)) error {
	if key == "" {
		return reply.Refuse(http.StatusBadRequest, "say which rule, by its key, as in ?key=orders:*")
	}
	return a.Change(w, r, who, r.URL.Query().Get("message"), func(v history.Version) (string, error) {
		return Edited(f(v.Text))
	})
}

// Edited is what an edit has made; its error says what is wrong with what was wanted.
func Edited(text string, err error) (string, error) {
	switch {
	case errors.Is(err, edit.ErrNoRule):
		return "", reply.Refuse(http.StatusNotFound, "%v", err)
	case err != nil:
		return "", reply.Broken(err)
	}
	return text, nil
}
