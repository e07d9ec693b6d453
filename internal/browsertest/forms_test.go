// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"fmt"
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
