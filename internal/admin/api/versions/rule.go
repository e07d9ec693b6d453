// SPDX-License-Identifier: Apache-2.0

package versions

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	"github.com/headgate/headgate/dynamicconfig/edit"
	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
)

// maxRule bounds the fields of one rule, in bytes.
const maxRule = 64 << 10

// putRule sets fields of one rule, or adds the rule. The rest of the text stays as it is.
func (a *Answers) putRule(w http.ResponseWriter, r *http.Request, who *callers.Caller) error {
	wanted, err := fieldsOf(http.MaxBytesReader(w, r.Body, maxRule))
	if err != nil {
		return err
	}
	var fields []edit.Field
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		f := edit.Field{Name: name}
		switch v := wanted[name].(type) {
		case nil:
		case string:
			f.Value = v
		case bool, json.Number:
			f.Value = fmt.Sprint(v)
		default:
			return reply.Refuse(http.StatusBadRequest, "%.40q: write it as a text, as a limits file has it", name)
		}
		fields = append(fields, f)
	}
	key := r.URL.Query().Get("key")
	return a.changeRule(w, r, who, key, func(text string) (string, error) { return edit.Set(text, key, fields...) })
}

// errFields: the body is not what putRule reads.
var errFields = reply.Refuse(http.StatusBadRequest, `send fields of the rule, as in {"limit": "200/s", "burst": null}; null takes a field away`)

// fieldsOf reads one JSON object that has each field once, and nothing after it: of two
// fields with one name, other readers of JSON take the first.
func fieldsOf(body io.Reader) (map[string]any, error) {
	in := json.NewDecoder(body)
	in.UseNumber()
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') {
		return nil, errFields
	}
	fields := make(map[string]any)
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, errFields
		}
		text, _ := name.(string) // it is one, or Token had failed
		if _, twice := fields[text]; twice {
			return nil, reply.Refuse(http.StatusBadRequest, "%.40q is there twice: send each field once", text)
		}
		var value any
		if err := in.Decode(&value); err != nil {
			return nil, errFields
		}
		fields[text] = value
	}
	if _, err := in.Token(); err != nil || len(fields) == 0 {
		return nil, errFields
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, errFields
	}
	return fields, nil
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
	return a.changeText(w, r, who, r.URL.Query().Get("message"), f)
}

// Edited is what an edit has made; its error says what is wrong with what was wanted.
func Edited(text string, err error) (string, error) {
	_, refused := errors.AsType[*reply.Problem](err)
	switch {
	case refused:
		return "", err
	case errors.Is(err, edit.ErrNoRule):
		return "", reply.Refuse(http.StatusNotFound, "%v", err)
	case err != nil:
		return "", reply.Broken(err)
	}
	return text, nil
}
