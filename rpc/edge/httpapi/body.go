// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate/rpc/edge"
)

// ask is what one event asks for.
type ask struct {
	Key       *string `json:"key"`
	Cost      *whole  `json:"cost"`
	MaxWaitMS *whole  `json:"max_wait_ms"`
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

// reader reads what programs ask. Safe for concurrent use.
type reader struct {
	maxBody   int64
	maxBatch  int
	large     func(ctx context.Context, decode func()) bool
	responder *responder
}

// read reads the body of r. When that is impossible it answers, and returns
// nil.
func (in *reader) read(w http.ResponseWriter, r *http.Request) *asks {
	body, ok := in.body(w, r)
	if !ok {
		return nil
	}
	var q *asks
	var err error
	if len(body) <= LargeBody {
		q, err = in.parse(body)
	} else if !in.large(r.Context(), func() { q, err = in.parse(body) }) {
		err = errors.New("the program has gone")
	}
	switch {
	case errors.Is(err, errTooMany):
		in.responder.refuse(w, tooLarge, "%v", err)
		return nil
	case err != nil:
		in.responder.refuse(w, badBody, "%v", err)
		return nil
	}
	return q
}

// errTooMany is wrapped in errors about bodies with too many requests.
var errTooMany = errors.New("too many requests")

// parse reads the body of POST /v1/allow, and checks it.
func (in *reader) parse(body []byte) (*asks, error) {
	q, ok := quick(body)
	if !ok || !utf8.Valid(body) {
		if commas(body) > fieldsOfAsk*in.maxBatch { // before there is memory for them
			return nil, fmt.Errorf("%w: send at most %d", errTooMany, in.maxBatch)
		}
		var err error
		if q, err = parse(body); err != nil {
			return nil, err
		}
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	if len(q.Requests) > in.maxBatch {
		return nil, fmt.Errorf("%w: there are %d; send at most %d", errTooMany, len(q.Requests), in.maxBatch)
	}
	return q, nil
}

// readOne reads the body of r, which asks about one event. When that is
// impossible it answers, and returns nil.
func (in *reader) readOne(w http.ResponseWriter, r *http.Request) *ask {
	q := in.read(w, r)
	if q != nil && q.Requests != nil {
		in.responder.refuse(w, badBody, "requests is for /v1/allow: ask about one event")
		return nil
	}
	if q == nil {
		return nil
	}
	return q.one()
}

// body is that of r. When that is impossible it answers, and returns false.
func (in *reader) body(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	if !isJSON(r.Header) {
		in.responder.refuse(w, noJSON, "%s", noJSON.advice)
		return nil, false
	}
	body, err := in.readAll(w, r)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		in.responder.refuse(w, tooLarge, "the body has more than %d bytes", in.maxBody)
		return nil, false
	}
	if err != nil {
		in.responder.refuse(w, badBody, "the body ended early")
	}
	return body, err == nil
}

// charsets are names of UTF-8, and of a part of it, as programs write them.
var charsets = []string{"utf-8", "utf8", "us-ascii"}

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
	return err == nil && media == "application/json" && (!ok || slices.Contains(charsets, strings.ToLower(charset)))
}

func (in *reader) readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if n := r.ContentLength; n > 0 && n <= min(1024, in.maxBody) { // the usual one
		b := make([]byte, n)
		_, err := io.ReadFull(r.Body, b)
		return b, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, in.maxBody))
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
		return explain(err, body, to)
	}
	if after := bytes.TrimLeft(body[d.InputOffset():], " \t\r\n"); len(after) > 0 {
		return errors.New("there is something after the JSON")
	}
	return plain(body)
}

// explain is what the JSON library says about a body for to, for people who know no Go.
func explain(err error, body []byte, to any) error {
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok && wrong.Offset > 0 && wrong.Offset <= int64(len(body)) {
		return fmt.Errorf("it is not JSON from byte %d on, at %.20q: put names and texts between double quotes, and no comma behind the last entry", wrong.Offset, body[wrong.Offset-1:])
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		what := "it"
		if wrong.Field != "" {
			what = strings.TrimPrefix(wrong.Field, "ask.")
		}
		article := "a"
		if strings.HasPrefix(wrong.Value, "array") || strings.HasPrefix(wrong.Value, "object") {
			article = "an"
		}
		return fmt.Errorf("%s cannot be %s %.40s: %s", what, article, wrong.Value, cmp.Or(toWrite(wrong.Value), "send "+wanted(wrong.Type)))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends early")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("unknown field %.200s: use %s", name, strings.Join(fieldsOf(reflect.TypeOf(to).Elem()), ", "))
	}
	return fmt.Errorf("%.200s", strings.TrimPrefix(err.Error(), "json: "))
}

// wanted says what to send for a field of type t.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int64:
		return fmt.Sprintf("a whole number, as in 1, up to %d", int64(math.MaxInt64))
	case reflect.String:
		return "text in quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list, as in [{...}]"
	}
	return "an object, as in {...}"
}

// fieldsOf is what JSON calls the fields of the struct t, those of embedded structs among them.
func fieldsOf(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		if f.Anonymous {
			names = append(names, fieldsOf(f.Type)...)
		} else if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// check says what is wrong with the shape of q. What is wrong with one key or
// cost is answered as its decision.
func (q *asks) check() error {
	if q.Requests == nil {
		if q.AllOrNothing != nil {
			return errors.New("all_or_nothing is for requests, and there are none")
		}
		return q.ask.check()
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

// as is q as the engine takes it. Nothing is free here: a cost below 1 is invalid.
func (q *ask) as(kind edge.Kind) edge.Ask {
	cost := q.cost()
	if cost < 1 {
		cost = -1
	}
	return edge.Ask{Kind: kind, Key: *q.Key, Cost: cost, Longest: q.longest()}
}

func (q *ask) cost() int64 {
	if q.Cost == nil {
		return 1
	}
	return int64(*q.Cost)
}

// longest is how long the program would wait.
func (q *ask) longest() time.Duration {
	if q.MaxWaitMS == nil {
		return 0
	}
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(int64(*q.MaxWaitMS), most)) * time.Millisecond
}
