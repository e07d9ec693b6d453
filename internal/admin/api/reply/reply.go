// SPDX-License-Identifier: Apache-2.0

// Package reply has the forms of what the API answers: JSON, and problems of RFC 9457. It
// reads what many queries have in common. It does not know what operators ask.
package reply

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/daemon/callers"
)

// Handler answers a request of who, who may see something. An error that is no *Problem is
// one of a database, or of another daemon.
type Handler func(w http.ResponseWriter, r *http.Request, who *callers.Caller) error

// MaxWait is how long the other members are waited for. It is less than callers wait, 10 s by
// default, so that they learn which member did not answer.
const MaxWait = 5 * time.Second

// JSON answers with v as JSON.
func JSON(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
	return nil
}

// Page is how much of a list is wanted: n of a query, in 1 to most.
func Page(r *http.Request, usual, most int) (n int, err error) {
	text := r.URL.Query().Get("n")
	if text == "" {
		return usual, nil
	}
	if n, err = strconv.Atoi(text); err != nil || n < 1 || n > most {
		return 0, Refuse(http.StatusBadRequest, "n=%.20q: ask for 1 to %d", text, most)
	}
	return n, nil
}

// Number is a whole number of a query, at least 0; 0 if it is not there.
func Number(r *http.Request, name string) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, Refuse(http.StatusBadRequest, "%s=%.20q: write the number of a version", name, text)
	}
	return n, nil
}

// Most is a bound of a query, at least 0; without it there is none.
func Most(r *http.Request, name string) (int, error) {
	query := r.URL.Query()
	if !query.Has(name) {
		return math.MaxInt, nil
	}
	n, err := strconv.Atoi(query.Get(name))
	if err != nil || n < 0 {
		return 0, Refuse(http.StatusBadRequest, "%s=%.20q: write a whole number, as in %s=0", name, query.Get(name), name)
	}
	return n, nil
}

// Flag reports whether a query has name, without a value or as true.
func Flag(r *http.Request, name string) (bool, error) {
	query := r.URL.Query()
	text := query.Get(name)
	if text == "" {
		return query.Has(name), nil
	}
	set, err := strconv.ParseBool(text)
	if err != nil {
		return false, Refuse(http.StatusBadRequest, "%s=%.20q: write true or false", name, text)
	}
	return set, nil
}
