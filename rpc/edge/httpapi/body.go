// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"
)

// ask is what one event asks for.
type ask struct {
	Key       *string `json:"key"`
	Cost      *int64  `json:"cost"`
	MaxWaitMS *int64  `json:"max_wait_ms"`
}

// fieldsOfAsk is how many fields an ask has. n of them have at most so many times n
// commas, with those between them and between the fields beside them.
const fieldsOfAsk = 3

// asks is the body of POST /v1/allow: an ask, or several.
type asks struct {
	ask

	Requests     []ask `json:"requests"`
	AllOrNothing *bool `json:"all_or_nothing"`
}

// read reads the body of r. When that is impossible it answers, and returns
// nil.
func (a *API) read(w http.ResponseWriter, r *http.Request) *asks {
	body, ok := a.body(w, r)
	if !ok {
		return nil
	}
	q, ok := quick(body)
	var err error
	if !ok || !utf8.Valid(body) {
		if commas(body) > fieldsOfAsk*a.maxBatch { // before there is memory for them
			a.refuse(w, tooLarge, "more than %d requests; send at most that many", a.maxBatch)
			return nil
		}
		q, err = parse(body)
	}
	if err == nil {
		err = a.check(q)
	}
	switch {
	case err != nil:
		a.refuse(w, badBody, "%v", err)
		return nil
	case len(q.Requests) > a.maxBatch:
		a.refuse(w, tooLarge, "%d requests; send at most %d", len(q.Requests), a.maxBatch)
		return nil
	}
	return q
}

// body is that of r. When that is impossible it answers, and returns false.
func (a *API) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if !isJSON(r.Header) {
		a.refuse(w, noJSON, "%s", noJSON.advice)
		return nil, false
	}
	body, err := a.readAll(w, r)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		a.refuse(w, tooLarge, "the body has more than %d bytes", a.maxBody)
		return nil, false
	}
	if err != nil {
		a.refuse(w, badBody, "the body ended early")
	}
	return body, err == nil
}

func isJSON(h http.Header) bool {
	if e := h.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return false
	}
	t := h.Get("Content-Type")
	if t == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(t)
	charset, ok := params["charset"]
	return err == nil && media == "application/json" && (!ok || strings.EqualFold(charset, "utf-8"))
}

func (a *API) readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n > 0 && n <= min(1024, a.maxBody) { // the usual one
		b := make([]byte, n)
		_, err := io.ReadFull(r.Body, b)
		return b, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, a.maxBody))
}

// commas is how many commas body, which may be no JSON, has beside those in strings.
func commas(body []byte) (n int) {
	inString := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			inString = !inString
		case c == '\\' && inString:
			i++
		case c == ',' && !inString:
			n++
		}
	}
	return n
}

// parse reads the body of POST /v1/allow.
func parse(body []byte) (*asks, error) {
	q := new(asks)
	return q, decode(body, q)
}

// decode reads a body into what has all its fields.
func decode(body []byte, to any) error {
	if !utf8.Valid(body) {
		return errors.New("it is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return explain(err)
	}
	if after := bytes.TrimLeft(body[d.InputOffset():], " \t\r\n"); len(after) > 0 {
		return errors.New("there is something after the JSON")
	}
	return plain(body)
}

// explain is what the JSON library says, for people who know no Go.
func explain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := "it"
		if wrong.Field != "" {
			what = strings.TrimPrefix(wrong.Field, "ask.")
		}
		article := "a"
		if strings.HasPrefix(wrong.Value, "array") || strings.HasPrefix(wrong.Value, "object") {
			article = "an"
		}
		return fmt.Errorf("%s cannot be %s %.40s", what, article, wrong.Value)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends early")
	}
	return fmt.Errorf("%.200s", strings.TrimPrefix(err.Error(), "json: "))
}

// check says what is wrong with the shape of q. What is wrong with one key or
// cost is told as its decision.
func (a *API) check(q *asks) error {
	if q.Requests == nil {
		if q.AllOrNothing != nil {
			return errors.New("all_or_nothing is for requests, and there are none")
		}
		return q.one().check()
	}
	if q.Key != nil || q.Cost != nil || q.MaxWaitMS != nil {
		return errors.New("key, cost and max_wait_ms go into each of the requests")
	}
	if len(q.Requests) == 0 {
		return errors.New("requests is empty")
	}
	for i := range q.Requests {
		if err := q.Requests[i].check(); err != nil {
			return fmt.Errorf("requests[%d]: %w", i, err)
		}
	}
	return nil
}

// one is the ask that q is, without requests.
func (q *asks) one() *ask { return &q.ask }

func (q *ask) check() error {
	switch {
	case q.Key == nil:
		return errors.New("there is no key")
	case q.MaxWaitMS != nil && *q.MaxWaitMS < 0:
		return errors.New("max_wait_ms is below 0")
	}
	return nil
}
