// SPDX-License-Identifier: Apache-2.0

// Package access finds out which operator a request is from, lets browsers keep a token, and slows
// down callers that guess tokens. It does not know what may be asked. One lock guards what it
// remembers of callers.
package access

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/internal/admin/api/reply"
	"github.com/headgate/headgate/internal/daemon/callers"
	"github.com/headgate/headgate/limiter"
)

// cookie has the token of who has logged in with a browser.
const cookie = "headgate_operator"

// loggedIn is for how long a browser keeps the cookie.
const loggedIn = 12 * time.Hour

// maxToken bounds a token, in bytes.
const maxToken = 1024

// Gate lets operators in. Use New. It is safe for concurrent use.
type Gate struct {
	operators func() *callers.Policy
	log       *slog.Logger
	logins    logins
}

// New returns the Gate of operators. log gets a line for each that is not known.
func New(operators func() *callers.Policy, log *slog.Logger) *Gate {
	return &Gate{operators: operators, log: log}
}

// Proof is what r shows of who sent it: a bearer token, or the cookie of one, and a
// certificate, which the server has checked.
func Proof(r *http.Request) (proof callers.Proof) {
	proof.Certificate, _ = callers.Certified(r.TLS)
	proof.Token = callers.Bearer(r.Header.Values("Authorization"))
	if c, err := r.Cookie(cookie); err == nil && proof.Token == "" {
		proof.Token = c.Value
	}
	return proof
}

// Who is the operator that r is from, who may see something.
func (g *Gate) Who(r *http.Request) (*callers.Caller, error) {
	proof := Proof(r)
	if proof.Token != "" && !g.logins.mayTry(r) {
		return nil, tooMany
	}
	who, err := g.operators().Who(proof)
	if err != nil {
		if proof.Token != "" {
			g.logins.failed(r)
		}
		g.log.Warn("an operator is not known", "from", r.RemoteAddr, "method", r.Method, "path", r.URL.Path, "error", err)
		return nil, reply.Refuse(http.StatusUnauthorized, "%v", err)
	}
	if who.Name() == "" && !direct(r.Host) {
		return nil, reply.Refuse(http.StatusForbidden, "without a certificate or token, ask for this daemon by its address, not by the name %.100q: a page of another site could have that name", r.Host)
	}
	return who, who.Operates()
}

// direct reports whether host, of a request, is an address, or this machine: no page of
// another site has such a name.
func direct(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil || name == "localhost"
}

// Key is the key that r is about, which who may see.
func Key(r *http.Request, who *callers.Caller) (string, error) {
	key := r.URL.Query().Get("key")
	if key == "" || len(key) > 1024 {
		return "", reply.Refuse(http.StatusBadRequest, "say which key, of 1 to 1024 bytes, as in ?key=login:alice")
	}
	if !who.MaySee(key) {
		return "", reply.Refuse(http.StatusForbidden, "you may not see this key: your \"see\" in the file of operators has no pattern for it")
	}
	return key, nil
}

// Login has a browser keep a token, if it is an operator's.
func (g *Gate) Login(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Token string `json:"token"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 2*maxToken)).Decode(&asked); err != nil || asked.Token == "" || len(asked.Token) > maxToken {
		reply.Fail(w, reply.Refuse(http.StatusBadRequest, `send {"token": "…"}`))
		return
	}
	if !g.logins.mayTry(r) {
		reply.Fail(w, tooMany)
		return
	}
	who, err := g.operators().Who(callers.Proof{Token: asked.Token})
	if err == nil {
		err = who.Operates()
	}
	if err != nil {
		g.logins.failed(r)
		g.log.Warn("a login failed", "from", r.RemoteAddr, "error", err)
		reply.Fail(w, reply.Refuse(http.StatusUnauthorized, "%v", err))
		return
	}
	g.log.Info("an operator logged in", "operator", who.Name(), "from", r.RemoteAddr)
	http.SetCookie(w, keep(r, asked.Token, loggedIn))
	_ = reply.JSON(w, http.StatusOK, map[string]string{"name": who.Name()})
}

// Logout has a browser forget the token.
func (g *Gate) Logout(w http.ResponseWriter, r *http.Request) {
	http.SetCookie(w, keep(r, "", -time.Second))
	w.WriteHeader(http.StatusNoContent)
}

// keep is the cookie, kept for so long, and sent by pages of this daemon only.
func keep(r *http.Request, token string, long time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: cookie, Value: token, Path: "/", MaxAge: int(long / time.Second),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}

// tooMany is the Problem of who guesses.
var tooMany = reply.Refuse(http.StatusTooManyRequests, "too many wrong tokens came from this address: wait a minute")

// logins slows down who guesses tokens: from each address, wrongTokens at once, and then
// one in wrongEvery. The zero value is ready for use.
type logins struct {
	mu sync.Mutex // guards what follows
	by map[string]*limiter.Bucket
}

const (
	wrongTokens = 10
	wrongEvery  = 6 * time.Second
	maxGuessers = 10_000 // addresses that are remembered
)

// from is the address of r.
func from(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host // empty for all that have none
}

// mayTry reports whether r may show a token.
func (l *logins) mayTry(r *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.by[from(r)]
	return b == nil || b.Tokens() >= 1
}

// failed counts a wrong token. When too many addresses are remembered, those that have
// waited for long enough are forgotten, or else all.
func (l *logins) failed(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	host := from(r)
	b := l.by[host]
	if b == nil {
		if len(l.by) >= maxGuessers {
			maps.DeleteFunc(l.by, func(_ string, b *limiter.Bucket) bool { return b.Tokens() >= wrongTokens })
		}
		if l.by == nil || len(l.by) >= maxGuessers {
			l.by = make(map[string]*limiter.Bucket)
		}
		b = limiter.NewBucket(rate.Every(wrongEvery), wrongTokens)
		l.by[host] = b
	}
	b.Allow()
}
