// SPDX-License-Identifier: Apache-2.0

package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/headgate/headgate/internal/admin/api"
	"github.com/headgate/headgate/internal/admin/api/large"
)

//go:embed static
var static embed.FS

//go:embed pages/*.html
var templates embed.FS

// security allows what the pages have, and nothing else.
const security = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// UI answers with pages. Use New. It is safe for concurrent use.
type UI struct {
	api   http.Handler
	host  string
	mux   *http.ServeMux
	pages *template.Template
	files map[string]file // by path
	turn  large.Turn
	room  large.Room
}

// file is a file of static.
type file struct {
	text []byte
	kind string // its type
}

// New returns the pages of the daemon called host, which ask the API a.
func New(a http.Handler, host string) *UI {
	u := &UI{api: a, host: host, mux: http.NewServeMux(), files: make(map[string]file), turn: large.New()}
	names := make(map[string]string) // of files, with what changes when they do
	u.load(names)
	u.pages = template.Must(template.New("").Funcs(functions(names)).ParseFS(templates, "pages/*.html"))
	for pattern, f := range map[string]page{
		"GET /{$}":              u.overview,
		"GET /keys":             u.keys,
		"GET /key":              u.key,
		"POST /key/trace":       u.trace,
		"POST /key/reset":       u.reset,
		"GET /hosts":            u.hosts,
		"GET /migrations":       u.migrations,
		"POST /migrations/step": u.step,
		"GET /events":           u.events,
		"GET /limits":           u.limits,
		"GET /limits/version":   u.version,
		"POST /limits/check":    u.check,
		"POST /limits/review":   u.review,
		"POST /limits/apply":    u.apply,
		"POST /limits/rollback": u.rollback,
		"POST /limits/override": u.override,
	} {
		u.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := u.answer(w, r, f); err != nil {
				u.fail(w, r, err)
			}
		})
	}
	u.mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) {
		u.askToken(w, http.StatusOK, "", r.URL.Query().Get("next"))
	})
	u.mux.HandleFunc("POST /login", u.login)
	u.mux.HandleFunc("POST /logout", u.logout)
	u.mux.HandleFunc("GET /static/", u.file)
	u.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { u.fail(w, r, errNoPage) })
	return u
}

// page answers with a page, or a part of one.
type page func(w http.ResponseWriter, r *http.Request) error

// ServeHTTP implements http.Handler.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", security)
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	u.mux.ServeHTTP(w, r)
}

// load reads the files of static.
func (u *UI) load(names map[string]string) {
	kinds := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8"}
	all, err := fs.Glob(static, "static/*")
	if err != nil {
		panic(err) // the pattern is above
	}
	for _, name := range all {
		text, err := static.ReadFile(name)
		if err != nil {
			panic(err) // it is embedded
		}
		sum := sha256.Sum256(text)
		u.files["/"+name] = file{text, kinds[path.Ext(name)]}
		names[strings.TrimPrefix(name, "static/")] = "/" + name + "?" + hex.EncodeToString(sum[:6])
	}
}

// file answers with a file of static. Its URL changes when it does.
func (u *UI) file(w http.ResponseWriter, r *http.Request) {
	f, ok := u.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	if r.URL.RawQuery != "" {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(f.text)
}

// frame is a whole page.
type frame struct {
	Title string
	Me    *me // nil: no one has logged in
	Pages []link
	Host  string
	Body  template.HTML
}

type me struct{ api.Me }

// Shown is the name for people.
func (m me) Shown() string {
	if m.Name == "" {
		return "anyone"
	}
	return m.Name
}

type link struct {
	Name, Path string
	Here       bool
}

// show answers with a page: the template called name, which says what is in data. The
// parts of it that a browser asks for anew are a template of their own, called part.
func (u *UI) show(w http.ResponseWriter, r *http.Request, title, name, part string, data any) error {
	if part != "" && r.Header.Get("HX-Request") != "" {
		return u.part(w, http.StatusOK, part, data)
	}
	var who me
	if err := u.ask(r, http.MethodGet, "/v1/me", "", &who.Me); err != nil {
		return err
	}
	return u.frame(w, http.StatusOK, title, r.URL.Path, &who, name, data)
}

// part answers with a part of a page.
func (u *UI) part(w http.ResponseWriter, status int, name string, data any) error {
	var text bytes.Buffer
	if err := u.pages.ExecuteTemplate(&text, name, data); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("X-Fragment", "true")
	return u.room.Send(w, &large.Answer{Status: status, Body: text.Bytes()})
}

func (u *UI) frame(w http.ResponseWriter, status int, title, at string, who *me, name string, data any) error {
	var body, text bytes.Buffer
	if err := u.pages.ExecuteTemplate(&body, name, data); err != nil {
		return err
	}
	f := frame{Title: title, Me: who, Host: u.host, Body: template.HTML(body.String())} //nolint:gosec // it is what a template made
	for _, l := range []link{{"Overview", "/", false}, {"Keys", "/keys", false}, {"Hosts", "/hosts", false}, {"Limits", "/limits", false}, {"Migrations", "/migrations", false}, {"Events", "/events", false}} {
		l.Here = l.Path == at
		f.Pages = append(f.Pages, l)
	}
	if err := u.pages.ExecuteTemplate(&text, "layout", f); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	return u.room.Send(w, &large.Answer{Status: status, Body: text.Bytes()})
}

// fail answers that something was not done because of err.
func (u *UI) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	part := r.Header.Get("HX-Request") != ""
	switch {
	case p.Status == http.StatusUnauthorized && !part:
		http.Redirect(w, r, "/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		return
	case part:
		err = u.part(w, p.Status, "failed", p)
	default:
		err = u.frame(w, p.Status, p.Title, "", nil, "problem", p)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
