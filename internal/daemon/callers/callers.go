// SPDX-License-Identifier: Apache-2.0

// Package callers says who calls a daemon, and what they may do.
//
//	policy, err := callers.Parse(text)
//	caller, err := policy.Who(callers.Proof{Token: "…"})
//	err = caller.May(edge.Charge, "llm:alice")
//
// A policy is a file in YAML:
//
//	callers:
//	  - name: orders
//	    certificates: [orders.internal]   # names in certificates
//	    tokens: ["sha256:…"]              # hashes of bearer tokens
//	    uids: [1000]                      # users of this machine, at the Unix socket
//	    use: ["login:*", "llm:*"]         # take tokens, and look
//	    hold: ["llm:*"]                   # reserve tokens, and settle
//	    charge: ["llm:*"]                 # take what is used already
//	  - name: ada
//	    tokens: ["sha256:…"]
//	    see: ["*"]                        # what keys and their rules do, for operators
//	    change: ["llm:*"]                 # rules that are for such keys only, for operators
//	anyone:                               # who shows none of these; without it, no one else may do anything
//	  use: ["public:*"]
//
// Out of scope: how certificates are checked (internal/daemon/certs).
package callers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/spelling"
	"github.com/headgate/headgate/rpc/edge"
)

// Policy says who may do what. It does not change. A nil Policy lets everybody do
// everything.
type Policy struct {
	certificates map[string]*Caller
	tokens       map[[sha256.Size]byte]*Caller
	uids         map[uint32]*Caller
	anyone       *Caller // nil: who is not known may do nothing
}

// Caller is a program with rights. A nil Caller may do everything.
type Caller struct {
	name              string // empty: anyone
	use, hold, charge []dynamicconfig.Glob
	see, change       []dynamicconfig.Glob
}

// Proof is what a program has shown.
type Proof struct {
	Certificate string  // the name in its certificate, if that was checked
	Token       string  // a bearer token
	UID         *uint32 // of its process, on this machine
}

// Errors of Who.
var (
	ErrToken = errors.New("the token is none of the policy: it may be old, cut short or empty")
	ErrProof = errors.New("who are you? Show a certificate or a bearer token that this daemon's policy, or its file of operators, names")
)

// ErrForbidden is wrapped in errors of May.
var ErrForbidden = errors.New("not allowed by the policy of this daemon")

type file struct {
	Callers []section `yaml:"callers"`
	Anyone  *rights   `yaml:"anyone"`
}

type section struct {
	Name         string   `yaml:"name"`
	Certificates []string `yaml:"certificates"`
	Tokens       []string `yaml:"tokens"`
	UIDs         []any    `yaml:"uids"`
	Rights       rights   `yaml:",inline"`
}

type rights struct {
	Use    []string `yaml:"use"`
	Hold   []string `yaml:"hold"`
	Charge []string `yaml:"charge"`
	See    []string `yaml:"see"`
	Change []string `yaml:"change"`
}

// Parse reads a policy.
func Parse(text []byte) (*Policy, error) {
	f, err := read(text)
	if err != nil {
		return nil, err
	}
	p := &Policy{certificates: map[string]*Caller{}, tokens: map[[sha256.Size]byte]*Caller{}, uids: map[uint32]*Caller{}}
	names := make(map[string]bool)
	for i, s := range f.Callers {
		if err := checkName(s.Name); err != nil {
			return nil, fmt.Errorf("caller %d: %w", i+1, err)
		}
		if names[s.Name] {
			return nil, fmt.Errorf("there are two callers %q: give each its own name", s.Name)
		}
		names[s.Name] = true
		if err := p.add(s); err != nil {
			return nil, fmt.Errorf("caller %q: %w", s.Name, err)
		}
	}
	if f.Anyone != nil {
		c, err := f.Anyone.caller("")
		if err != nil {
			return nil, fmt.Errorf("anyone: %w", err)
		}
		p.anyone = c
	}
	return p, nil
}

// checkName returns why no caller can have name, which the history of the limits has with each
// change: a caller called anyone would be taken for one that showed nothing.
func checkName(name string) error {
	if name == "anyone" {
		return errors.New("the name anyone is for those who show nothing: give it another one")
	}
	if err := history.CheckAuthor(name); err != nil {
		return fmt.Errorf("name %w", err)
	}
	return nil
}

// plain has the words of limits files for those of the YAML library.
var plain = strings.NewReplacer("sequence", "list", "mapping", "map", "string", "text")

// read turns the text into sections.
func read(text []byte) (f file, err error) {
	defer func() {
		if r := recover(); r != nil { // a defect of the YAML library must not end the process
			err = fmt.Errorf("the policy is not YAML that can be read (%v): compare it with the examples in docs/security.md", r)
		}
	}()
	in := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	err = in.Decode(&f)
	if errors.Is(err, io.EOF) {
		return f, errors.New("the file is empty: name callers, as in the examples in docs/security.md")
	}
	var more any
	if err == nil && (!errors.Is(in.Decode(&more), io.EOF) || more != nil) {
		return f, errors.New("there is a second document, after a line with ---: put all callers into the first one")
	}
	if wrong, ok := errors.AsType[yaml.Error](err); ok && wrong.GetToken() != nil {
		at, says := wrong.GetToken().Position, plain.Replace(wrong.GetMessage())
		err = fmt.Errorf("line %d, column %d: %s: %s", at.Line, at.Column, says, remedy(err, wrong.GetMessage()))
	}
	return f, err
}

// remedy is what to do about what the YAML library says of a policy.
func remedy(err error, says string) string {
	if _, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		return "look for wrong indentation, or for a value with any of : * [ ] { } # that needs quotes"
	}
	if name, ok := strings.CutPrefix(says, "unknown field "); ok {
		name = strings.Trim(name, `"`)
		if meant := cmp.Or(otherNames[name], spelling.Nearest(name, fieldNames)); meant != "" {
			return "did you mean " + meant + "?"
		}
	}
	return "compare it with the examples in docs/security.md"
}

// otherNames has what other programs call fields of a policy.
var otherNames = map[string]string{"users": "callers", "programs": "callers", "allow": "use", "keys": "use", "read": "see", "write": "change"}

// fieldNames are all fields of a policy.
var fieldNames = []string{"anyone", "callers", "certificates", "change", "charge", "hold", "name", "see", "tokens", "uids", "use"}

// add takes in a caller.
func (p *Policy) add(s section) error {
	c, err := s.Rights.caller(s.Name)
	if err != nil {
		return err
	}
	if len(s.Certificates)+len(s.Tokens)+len(s.UIDs) == 0 {
		return errors.New("no one can prove to be this caller: give it certificates, tokens or uids")
	}
	for _, name := range s.Certificates {
		if name == "" {
			return errors.New("one of its certificates has no name: write the name, or remove the entry")
		}
		if err := own(p.certificates, name, c, "the certificate "+name); err != nil {
			return err
		}
	}
	for _, t := range s.Tokens {
		hash, err := parseHash(t)
		if err == nil {
			err = own(p.tokens, hash, c, "the token "+t)
		}
		if err != nil {
			return err
		}
	}
	for _, given := range s.UIDs {
		uid, err := parseUID(given)
		if err != nil {
			return err
		}
		if err := own(p.uids, uid, c, fmt.Sprint("uid ", uid)); err != nil {
			return err
		}
	}
	return nil
}

func own[K comparable](of map[K]*Caller, k K, c *Caller, what string) error {
	if other := of[k]; other != nil {
		return fmt.Errorf("%s is also that of %q: it can be one caller's only", what, other.name)
	}
	of[k] = c
	return nil
}

func (r *rights) caller(name string) (c *Caller, err error) {
	c = &Caller{name: name}
	for _, of := range []struct {
		patterns []string
		globs    *[]dynamicconfig.Glob
	}{{r.Use, &c.use}, {r.Hold, &c.hold}, {r.Charge, &c.charge}, {r.See, &c.see}, {r.Change, &c.change}} {
		for _, pattern := range of.patterns {
			g, err := dynamicconfig.CompileGlob(pattern)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", pattern, err)
			}
			*of.globs = append(*of.globs, g)
		}
	}
	return c, nil
}

const hashPrefix = "sha256:"

// Hash is a token as a policy has it.
func Hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

func parseHash(text string) (sum [sha256.Size]byte, err error) {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != len(sum) {
		return sum, errors.New("a token is written as sha256: and 64 hexadecimal digits, so that the file does not have the token itself: headgate token makes both")
	}
	return [sha256.Size]byte(raw), nil
}

// parseUID is a user of this machine, whose number is given in YAML. An entry without a value is
// not root, and a fraction is nobody.
func parseUID(given any) (uint32, error) {
	switch given.(type) {
	case uint64, string:
		if uid, err := strconv.ParseUint(fmt.Sprint(given), 10, 32); err == nil {
			return uint32(uid), nil
		}
	}
	return 0, fmt.Errorf("uids: %.40v is no user: write the number that id -u prints", given)
}

// Who is the caller that shows proof. A token counts before a certificate, and a
// certificate before a user of this machine.
func (p *Policy) Who(proof Proof) (*Caller, error) {
	if p == nil {
		return nil, nil
	}
	if proof.Token != "" {
		// The time of a lookup by the token's hash is of no use to a guesser.
		if c := p.tokens[sha256.Sum256([]byte(proof.Token))]; c != nil {
			return c, nil
		}
		return nil, ErrToken
	}
	if c := p.certificates[proof.Certificate]; c != nil && proof.Certificate != "" {
		return c, nil
	}
	if proof.UID != nil {
		if c := p.uids[*proof.UID]; c != nil {
			return c, nil
		}
	}
	if p.anyone == nil {
		return nil, ErrProof
	}
	return p.anyone, nil
}

// Name is c's; empty if it is anyone, or there is no policy.
func (c *Caller) Name() string {
	if c == nil {
		return ""
	}
	return c.name
}

// May returns why c may not do something with a key. Who holds a reservation may settle
// it.
func (c *Caller) May(kind edge.Kind, key string) error {
	if c == nil {
		return nil
	}
	globs, verb := c.use, "use"
	switch kind {
	case edge.Settle, edge.Release:
		return nil
	case edge.Hold:
		globs, verb = c.hold, "hold"
	case edge.Charge:
		globs, verb = c.charge, "charge"
	}
	for i := range globs {
		if globs[i].Match(key) {
			return nil
		}
	}
	return c.forbidden(verb, "this key", "for it")
}

// MaySee reports whether c may know what key does.
func (c *Caller) MaySee(key string) bool {
	return c == nil || slices.ContainsFunc(c.see, func(g dynamicconfig.Glob) bool { return g.Match(key) })
}

// Operates returns why c may see no key at all.
func (c *Caller) Operates() error {
	if c == nil || len(c.see) > 0 {
		return nil
	}
	return c.forbidden("see", "anything", "at all")
}

// MayChangeAny reports whether c may change any rule.
func (c *Caller) MayChangeAny() bool { return c == nil || len(c.change) > 0 }

// MayChange returns why c may not change the rule whose key is pattern: c needs a right
// that has all keys which the pattern may match.
func (c *Caller) MayChange(pattern string) error {
	if c == nil {
		return nil
	}
	wanted, err := dynamicconfig.CompileGlob(pattern)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(c.change, func(g dynamicconfig.Glob) bool { return g.Covers(wanted) }) {
		return nil
	}
	return c.forbidden("change", fmt.Sprintf("the rule %q", pattern), "that has all of its keys")
}

// forbidden says what c may not do, because of its rights called verb.
func (c *Caller) forbidden(verb, what, lacks string) error {
	name := "a program that the policy does not name"
	if c.name != "" {
		name = fmt.Sprintf("caller %q", c.name)
	}
	return fmt.Errorf("%w: %s may not %s %s: its %q in the policy has no pattern %s", ErrForbidden, name, verb, what, verb, lacks)
}

type contextKey struct{}

// With is ctx of a call by c.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From is who calls; nil if there is no policy.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(contextKey{}).(*Caller)
	return c
}
