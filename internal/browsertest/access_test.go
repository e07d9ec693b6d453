// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A part of a page that is asked for anew leaves readers where they are: the focus of the keyboard, and how
// far a table is scrolled sideways on a phone. Each page is looked at until its part came twice.
func TestWhatIsAskedForAnewLeavesReadersWhereTheyAre(t *testing.T) {
	b := browser(t)
	c := startCluster(t)
	at := func(path string) string { return "http://" + c.admins[0] + path }
	ada := open(t, b)
	ada.login(at("/"), c.tokens["ada"])
	ada.until(`document.querySelectorAll("td.key a").length > 3`)
	ada.do(ada.size(400, 800))
	for _, path := range []string{"/", "/hosts", "/key?key=login%3Aalice"} {
		ada.do(chromedp.Navigate(at(path)))
		ada.until(`[...document.querySelectorAll("main .scroll")].some((s) => s.scrollWidth > s.clientWidth + 40)`)
		is[int](ada, `(() => {
			window.came = 0;
			document.addEventListener("htmx:afterSettle", () => window.came++);
			window.table = [...document.querySelectorAll("main .scroll")].find((s) => s.scrollWidth > s.clientWidth + 40);
			window.place = table.querySelector("a") || table;
			window.name = place.innerText;
			place.focus();
			table.scrollLeft = 30;
			return 0;
		})()`)
		ada.until(`window.came > 1`)
		if got := is[string](ada, `[document.activeElement === place && place.isConnected, place === table || place.innerText === name, table.scrollLeft].join()`); got != "true,true,30" {
			t.Errorf("%s: has the focus, the same key, scrolled: %s; the focus is at %s", path, got, is[string](ada, `document.activeElement.outerHTML.slice(0, 200)`))
		}
	}
	ada.clean("parts that came anew")
}

// After a button is pressed by the keyboard, the focus is at what it brought, also where the button is gone.
func TestTheFocusFollowsWhatAButtonBrings(t *testing.T) {
	b := browser(t)
	c := startCluster(t)
	at := func(path string) string { return "http://" + c.admins[0] + path }
	ada := open(t, b)
	ada.login(at("/limits"), c.tokens["ada"])
	enter := func(button string) {
		t.Helper()
		ada.until(`document.querySelector('` + button + `')`)
		ada.do(chromedp.Focus(button), chromedp.KeyEvent("\r"))
	}
	ada.do(chromedp.WaitVisible("#text"), set("#text", limits+"# more\n"), chromedp.SendKeys("#message", "more"))
	enter("#review")
	enter("#apply")
	ada.says("Version 2 is stored")
	if got := is[string](ada, `document.activeElement.id`); got != "outcome" {
		t.Errorf("after a change, the focus is at %q", got)
	}
	ada.do(chromedp.Navigate(at("/limits/version?version=1")))
	enter("#outcome button.danger")
	ada.says("Going back to version 1 will change")
	if got := is[string](ada, `document.activeElement.id`); got != "outcome" {
		t.Errorf("before a rollback, the focus is at %q", got)
	}
}

// A page has room for what is remembered of a key, and shows all of it to those who ask. The picture has words.
func TestThePageOfATracedKeyHasAnEnd(t *testing.T) {
	b := browser(t)
	c := startCluster(t)
	at := func(path string) string { return "http://" + c.admins[0] + path }
	ada := open(t, b)
	ada.login(at("/key?key=search"), c.tokens["ada"])
	ada.until(`document.querySelector(".chart canvas")`)
	ada.do(press(`button[name="on"][value="true"]`))
	ada.until(`/The newest 25 of \d{3,},/.test(document.body.innerText)`) // it is asked for every two seconds
	const height = `document.documentElement.scrollHeight`
	if tall := is[int](ada, height); tall > 4000 {
		t.Errorf("the page is %d pixels high", tall)
	}
	ada.clean("a traced key")
	words := `document.querySelector(".chart").getAttribute("aria-label")`
	ada.until(words + `.includes("at most")`)
	if said := is[string](ada, words); !regexp.MustCompile(`^Each second, over the last minutes: at most [\d.]+ allowed and [\d.]+ rejected; in the last ten seconds at most [\d.]+ and [\d.]+\.$`).MatchString(said) {
		t.Error(said)
	}
	ada.do(press(`a[href$="decisions=all"]`))
	ada.says("Show the newest only")
	ada.do(chromedp.Sleep(3 * time.Second))
	if tall := is[int](ada, height); tall < 5000 {
		t.Errorf("all decisions are %d pixels high", tall)
	}
}
