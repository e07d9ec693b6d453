// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// At 3 a.m. an operator makes a bucket full again, overrides a limit, bypasses all limits and ends both, with
// forms. An operator without the right has no such form.
func TestFormsForThePager(t *testing.T) {
	b := browser(t)
	c := startCluster(t)
	at := func(path string) string { return "http://" + c.admins[0] + path }
	ada := open(t, b)
	ada.login(at("/key?key=login%3Aalice"), c.tokens["ada"])
	ada.until(`document.querySelector(".chart canvas")`)
	ada.do(press("#act summary"))
	ada.until(`(document.querySelector('form[hx-post^="/key/reset"] button').click(), document.querySelector("#filled .note.good"))`) // each member of a young cluster answers after a while
	ada.clean("a reset")

	override := func(amount, lasts, why string) {
		t.Helper()
		ada.do(set("#amount", amount), set("#for", lasts), set("#reason", why), press(`form[hx-post="/limits/override"] button:not([name])`))
	}
	override("2", "2h", "the sale")
	ada.says("limit: ")
	ada.expect("400")
	override("2x", "2h", "the sale")
	ada.says("limit 2x, until")
	ada.clean("an override that is reviewed")
	ada.do(press("#override button.main"))
	ada.says("Version 2 is stored")
	ada.clean("an override that was made")

	// The list has it, and a bypass of all asks, and names it.
	ada.do(chromedp.Navigate(at("/limits")))
	ada.says("holds")
	ada.do(press("#all"))
	override("bypass", "10m", "nothing works")
	ada.says("These stay limited, because they have an override of their own: login:alice.")
	ada.clean("a bypass that is reviewed")
	ada.do(press("#override button.danger"))
	ada.says("Version 3 is stored")
	for version, of := range []string{"all rules", "login:alice"} {
		ada.do(chromedp.Navigate(at("/limits")), press(`button[aria-label="End it now: `+of+`"]`))
		ada.says(fmt.Sprintf("Version %d is stored", 4+version))
	}
	ada.do(chromedp.Navigate(at("/limits")))
	ada.says("None. An override changes a limit for a time")
	ada.clean("no overrides")

	// An operator who may only see orders has no form.
	grace := open(t, b)
	grace.login(at("/key?key=orders%3A1"), c.tokens["grace"])
	grace.says("At each host")
	for _, path := range []string{"/key?key=orders%3A1", "/limits"} {
		grace.do(chromedp.Navigate(at(path)), chromedp.WaitVisible("h1"))
		if forms := is[int](grace, `document.querySelectorAll('form[hx-post^="/key/reset"], form[hx-post="/limits/override"]').length`); forms != 0 {
			t.Errorf("%s: grace is offered %d forms", path, forms)
		}
	}
}

// A button that a user presses before the scripts have loaded does nothing, and what was typed stays. Enter in a field of
// a change reviews the change.
func TestFormsWaitForTheScripts(t *testing.T) {
	b := browser(t)
	c := startCluster(t)
	at := func(path string) string { return "http://" + c.admins[0] + path }
	ada := open(t, b)
	ada.login(at("/limits"), c.tokens["ada"])
	ada.do(chromedp.WaitVisible("#text"), ada.without(true))
	changed := strings.Replace(limits, "100/s", "200/s", 1)
	for path, buttons := range map[string]string{"/limits": `#review, form[hx-post="/limits/override"] button`, "/key?key=login%3Aalice": `button[name="on"], form[hx-post^="/key/reset"] button`, "/limits/version?version=1": `button`} {
		ada.do(chromedp.Navigate(at(path)), chromedp.WaitVisible("h1"))
		type typed = map[string]string
		fields := typed{}
		if path == "/limits" {
			fields = typed{"#text": changed, "#message": "twice as many", "#of": "orders:*", "#amount": "2x", "#for": "2h", "#reason": "the sale"}
		}
		for field, text := range fields {
			ada.do(set(field, text))
		}
		is[int](ada, `(window.left = "", navigation.addEventListener("navigate", (e) => { window.left += e.destination.url; e.preventDefault(); }), 0)`)
		is[int](ada, `(document.querySelectorAll('`+buttons+`').forEach((b) => { if (!b.form || b.form.method !== "post") b.click(); }), 0)`)
		if path == "/limits" {
			ada.do(chromedp.SendKeys("#message", "\r"), chromedp.SendKeys("#reason", "\r"))
		}
		if left := is[string](ada, `window.left`); left != "" {
			t.Errorf("%s was left for %s", path, left)
		}
		for field, text := range fields {
			if got := is[string](ada, `document.querySelector("`+field+`").value`); got != text {
				t.Errorf("%s: %q became %q", field, text, got)
			}
		}
		if path == "/limits" && is[string](ada, `getComputedStyle(document.querySelector("#review")).pointerEvents`) != "none" {
			t.Error("the button looks as if it could be pressed")
		}
		ada.expect("net::ERR_BLOCKED_BY_CLIENT")
		ada.clean(path + " without scripts")
	}

	ada.do(ada.without(false), chromedp.Navigate(at("/limits")), chromedp.WaitVisible("#text"))
	ada.until(`document.body.classList.contains("ready")`)
	ada.do(set("#text", changed), chromedp.SendKeys("#message", "twice as many\r"))
	ada.says("This will change")
	if got := is[string](ada, `location.pathname + location.search`); got != "/limits" {
		t.Error(got)
	}
	ada.clean("a change that Enter reviews")
}
