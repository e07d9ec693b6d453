// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// document is the OpenAPI document, and knows enough of JSON Schema to check
// what the document itself uses: what it does not know is an error.
type document struct{ root map[string]any }

func readDocument(t testing.TB) document {
	t.Helper()
	var d document
	if err := json.Unmarshal(OpenAPI, &d.root); err != nil {
		t.Fatal(err)
	}
	return d
}

// resolve follows a $ref.
func (d document) resolve(v any) map[string]any {
	m, _ := v.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	var at any = d.root
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(map[string]any)[name]
	}
	return d.resolve(at)
}

// check says what keeps v from being of schema.
func (d document) check(schema, v any) error {
	s := d.resolve(schema)
	if s == nil {
		return fmt.Errorf("there is no schema %v", schema)
	}
	for word, arg := range s {
		if err := d.checkWord(s, word, arg, v); err != nil {
			return err
		}
	}
	return nil
}

func (d document) checkWord(s map[string]any, word string, arg, v any) error {
	object, _ := v.(map[string]any)
	list, _ := v.([]any)
	number, isNumber := v.(float64)
	text, isText := v.(string)
	wrong := func() error { return fmt.Errorf("%v is not of %s %v", v, word, arg) }
	switch word {
	case "description", "default":
	case "type":
		is := map[string]bool{
			"object": object != nil, "array": list != nil, "string": isText, "number": isNumber,
			"integer": isNumber && number == math.Trunc(number), "boolean": v == true || v == false,
		}
		if !is[arg.(string)] {
			return wrong()
		}
	case "required":
		for _, name := range arg.([]any) {
			if _, ok := object[name.(string)]; !ok {
				return fmt.Errorf("%v has no %v", v, name)
			}
		}
	case "properties":
		for name, schema := range arg.(map[string]any) {
			if of, ok := object[name]; ok {
				if err := d.check(schema, of); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	case "additionalProperties":
		known := s["properties"].(map[string]any)
		for name := range object {
			if known[name] == nil {
				return fmt.Errorf("%s is not in the schema", name)
			}
		}
	case "items":
		for _, item := range list {
			if err := d.check(arg, item); err != nil {
				return err
			}
		}
	case "enum":
		if !slices.Contains(arg.([]any), v) {
			return wrong()
		}
	case "minimum":
		if number < arg.(float64) {
			return wrong()
		}
	case "maximum":
		if number > arg.(float64) {
			return wrong()
		}
	case "minLength":
		if utf8.RuneCountInString(text) < int(arg.(float64)) {
			return wrong()
		}
	case "maxLength":
		if utf8.RuneCountInString(text) > int(arg.(float64)) {
			return wrong()
		}
	case "minItems":
		if len(list) < int(arg.(float64)) {
			return wrong()
		}
	case "maxItems":
		if len(list) > int(arg.(float64)) {
			return wrong()
		}
	case "pattern":
		if !regexp.MustCompile(arg.(string)).MatchString(text) {
			return wrong()
		}
	case "oneOf":
		fits := 0
		var errs []error
		for _, one := range arg.([]any) {
			if err := d.check(one, v); err == nil {
				fits++
			} else {
				errs = append(errs, err)
			}
		}
		if fits != 1 {
			return fmt.Errorf("%v fits %d of %v: %v", v, fits, arg, errs)
		}
	default:
		return fmt.Errorf("a schema says %s, which this test does not know", word)
	}
	return nil
}

// operation finds what the document says of a request; nil if nothing.
func (d document) operation(method, path string) map[string]any {
	for template, item := range d.root["paths"].(map[string]any) {
		pattern := regexp.QuoteMeta(template)
		pattern = regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(pattern, `.*`)
		if regexp.MustCompile("^" + pattern + "$").MatchString(path) {
			op, _ := item.(map[string]any)[strings.ToLower(method)].(map[string]any)
			return op
		}
	}
	return nil
}

// checkResponse says what in an answer the document does not say.
func (d document) checkResponse(method, path string, status int, h http.Header, body []byte) error {
	op := d.operation(method, path)
	if op == nil {
		return fmt.Errorf("%s %s is not in the document", method, path)
	}
	response := d.resolve(op["responses"].(map[string]any)[fmt.Sprint(status)])
	if response == nil {
		return fmt.Errorf("%s %s: the status %d is not in the document", method, path, status)
	}
	headers, _ := response["headers"].(map[string]any)
	for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
		value := h.Get(name)
		if value == "" {
			continue
		}
		if err := d.check(d.resolve(headers[name])["schema"], value); err != nil {
			return fmt.Errorf("%s %s: %d: %s: %w", method, path, status, name, err)
		}
	}
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	content, ok := response["content"].(map[string]any)[media].(map[string]any)
	if !ok {
		return fmt.Errorf("%s %s: %d: the content type %q is not in the document", method, path, status, media)
	}
	var v any = string(body)
	if strings.HasSuffix(media, "json") {
		if err := json.Unmarshal(body, &v); err != nil {
			return err
		}
	}
	if err := d.check(content["schema"], v); err != nil {
		return fmt.Errorf("%s %s: %d: %w", method, path, status, err)
	}
	return nil
}

// Each path of the document is served, each that is served is in it, and all
// that it refers to is there.
func TestTheDocumentHasTheRoutes(t *testing.T) {
	d := readDocument(t)
	if d.root["openapi"] != "3.1.0" {
		t.Errorf("openapi: %v", d.root["openapi"])
	}
	var documented, served []string
	for path, item := range d.root["paths"].(map[string]any) {
		beginning, _, _ := strings.Cut(path, "{")
		for method := range item.(map[string]any) {
			documented = append(documented, method+" "+beginning)
		}
	}
	served = append(served, "get "+keysPath)
	for path := range posts(nil) {
		served = append(served, "post "+path)
	}
	for path := range gets(new(API)) {
		beginning, _, _ := strings.Cut(path, "{")
		served = append(served, "get "+beginning)
	}
	slices.Sort(documented)
	slices.Sort(served)
	if !slices.Equal(documented, served) {
		t.Errorf("documented %q, served %q", documented, served)
	}
	for _, m := range regexp.MustCompile(`"\$ref": "([^"]+)"`).FindAllStringSubmatch(string(OpenAPI), -1) {
		if d.resolve(map[string]any{"$ref": m[1]}) == nil {
			t.Errorf("nothing is at %s", m[1])
		}
	}
}
