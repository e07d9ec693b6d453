// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// An operator's day: from the login to a change, a mistake, a race with another one, a
// daemon that dies, and back.
func TestAnOperatorsDay(t *testing.T) {
	b := browser(t)
	c := startCluster(t)
	at := func(path string) string { return "http://" + c.admins[0] + path }
	ada := open(t, b)

	// The login.
	ada.login(at("/keys"), "wrong")
	ada.says("the token is none of the policy")
	ada.expect("401")
	ada.clean("login")
	ada.do(chromedp.SendKeys("#token", c.tokens["ada"]), press("form button.main"))
	ada.says("in use at this daemon")

	// Each page.
	for path, text := range map[string]string{
		"/": "5 of 5", "/keys?sort=rejected": "login:alice", "/key?key=login%3Aalice": "each event asks the key's owner",
		"/hosts": c.admins[0][:9], "/limits": "the first limits", "/limits/version?version=1": "search", "/events": "Events", "/migrations": "No rule changes its algorithm",
	} {
		ada.do(ada.dark(false), chromedp.Navigate(at(path)))
		ada.says(text)
		ada.clean(path)
		if path == "/" || path == "/limits" {
			ada.do(ada.dark(true))
			ada.clean(path + ", dark")
		}
		ada.do(ada.size(360, 740))
		if wide := is[int](ada, `document.documentElement.scrollWidth`); wide > 360 {
			t.Errorf("%s is %d pixels wide on a phone", path, wide)
		}
		ada.do(ada.size(1280, 900))
	}
	ada.do(ada.dark(false))

	// Search, and what is private.
	ada.do(chromedp.Navigate(at("/keys")), chromedp.SendKeys("#like", "orders:"))
	ada.says("orders:1")
	ada.until(`!document.querySelector("#list").innerText.includes("search")`)

	// What happened, and the decisions that are remembered.
	ada.do(chromedp.Navigate(at("/key?key=login%3Aalice")))
	ada.until(`document.querySelector(".chart canvas")`)
	ada.do(press(`button[name="on"][value="true"]`))
	ada.says("too few tokens")
	ada.clean("a key that is traced")

	// From a mistake to a change.
	ada.do(chromedp.Navigate(at("/limits")), chromedp.WaitVisible("#text"), set("#text", "limits: [{key: a, limit: 100rps}]"))
	ada.says("did you mean 100/s?")
	ada.says("line 1, column 26")
	ada.expect("422")
	ada.clean("limits with a mistake")
	second := open(t, b) // another editor, with cookies of its own
	second.login(at("/limits"), c.tokens["ada"])
	second.do(chromedp.WaitVisible("#text"), set("#text", limits+"# by the second\n"), chromedp.SendKeys("#message", "second"))
	changed := "# after the sale\nlimits:\n  - {key: \"orders:*\", limit: 200/s}\n  - {key: \"login:*\", limit: 5/m, burst: 5, algorithm: exact}\n  - {key: \"people:*\", limit: 10/s, private: true}\n  - {key: search, limit: 300/s}\nunmatched: deny\n"
	ada.do(set("#text", changed), chromedp.SendKeys("#message", "twice as many orders"), press("#review"))
	ada.says("100/s → 200/s")
	ada.says("it would have rejected")
	ada.clean("a change that is reviewed")
	ada.do(set("#enforce", "10"), press("#review"))
	ada.says("enforce unset → 10%")
	ada.do(press("#apply"))
	ada.says("Version 2 is stored")
	ada.clean("the first step of a change")

	// The second editor is told, although the text was typed just now and the answer takes longer than
	// the page waits with its check.
	second.do(second.slow(700*time.Millisecond), set("#text", limits+"# by the second, again\n"), press("#review"))
	second.says("Another operator stored version 2")
	second.expect("412")
	second.clean("a change that comes late")

	// The next step, of the same text, is the last one.
	ada.do(set("#enforce", "100"), press("#review"))
	ada.says("enforce 10% → unset")
	ada.do(press("#apply"))
	ada.says("Version 3 is stored")
	ada.clean("a change that was made")

	// All daemons follow, and the change is taken back.
	ada.do(chromedp.Navigate(at("/limits/version?version=2")), press("button.danger"))
	ada.says("200/s → 100/s")
	ada.do(press("#outcome button.danger"))
	ada.says("Version 4 is stored")
	ada.do(chromedp.Navigate(at("/events")))
	ada.says("ada stored version 4")

	// A migration: a step further.
	moving := strings.Replace(limits, "limit: 300/s", "limit: 300/s, migrate: {from: even, to: auto, mode: old}", 1)
	ada.do(chromedp.Navigate(at("/limits")), chromedp.WaitVisible("#text"), ada.slow(700*time.Millisecond), set("#text", moving))
	ada.until(`document.querySelector("#edit.htmx-request")`) // the check, whose place the review takes
	ada.do(press("#review"), ada.slow(0), chromedp.SendKeys("#message", "to auto"))
	ada.says("This will change")
	ada.do(press("#apply"))
	ada.says("Version 5 is stored")
	ada.do(chromedp.Navigate(at("/migrations")))
	ada.says("even → auto")
	ada.clean("migrations")
	ada.do(press(`button[value="old-shadow-new"]`))
	ada.says("Version 6 is stored")

	// One further is against the verdict, and is asked about.
	ada.until(`document.querySelector('button[value="new-shadow-old"]')`)
	is[int](ada, `(window.asked = [], window.confirm = (question) => (asked.push(question), asked.length > 1), 0)`)
	ada.do(press(`button[value="new-shadow-old"]`), press(`button[value="new-shadow-old"]`))
	ada.says("Version 7 is stored")
	if asked := is[string](ada, `asked.join()`); strings.Count(asked, "Advance to new-shadow-old all the same?") != 2 || !strings.Contains(asked, "The verdict is wait: only ") {
		t.Errorf("asked %q", asked)
	}

	// An operator who may only see orders sees no other key, and changes nothing.
	grace := open(t, b)
	grace.login(at("/keys"), c.tokens["grace"])
	grace.says("orders:1")
	if text := grace.text(); strings.Contains(text, "login:alice") {
		t.Errorf("grace sees all keys: %s", text)
	}
	grace.do(chromedp.Navigate(at("/limits")), chromedp.WaitVisible("#text"))
	if buttons := is[int](grace, `document.querySelectorAll("#review").length`); buttons != 0 {
		t.Error("grace is offered to change the limits")
	}
	grace.do(chromedp.Navigate(at("/key?key=login%3Aalice")))
	grace.says("you may not see this key")
	grace.expect("403")
	grace.clean("forbidden")

	// A daemon dies.
	ada.do(chromedp.Navigate(at("/hosts")))
	ada.says("up")
	if err := c.nodes[4].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	ada.says("down")
	t.Logf("a lost daemon is on the page after %v", time.Since(began))

	// This daemon dies too: what is shown is stale.
	if err := c.nodes[0].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	ada.says("The daemon does not answer")
}

// The pictures of docs/operators.md.
func TestPictures(t *testing.T) {
	if !*update {
		t.Skip("pictures are made with -update")
	}
	b := browser(t)
	c := startCluster(t)
	a := open(t, b)
	a.login("http://"+c.admins[0]+"/", c.tokens["ada"])
	a.says("5 of 5")
	a.do(chromedp.Navigate("http://"+c.admins[0]+"/key?key=login%3Aalice"), press(`button[name="on"][value="true"]`), chromedp.Sleep(30*time.Second)) // something to look at
	for name, path := range map[string]string{"overview": "/", "key": "/key?key=login%3Aalice", "limits": "/limits"} {
		for _, dark := range []bool{false, true} {
			for _, phone := range []bool{false, true} {
				full := name
				size := a.size(1280, 900)
				if phone {
					size, full = a.size(390, 844), full+"-phone"
				}
				if dark {
					full += "-dark"
				}
				a.do(a.dark(dark), size, chromedp.Navigate("http://"+c.admins[0]+path), chromedp.Sleep(2500*time.Millisecond))
				if name == "limits" && !phone {
					a.do(set("#text", strings.Replace(limits, "100/s", "100rps", 1)), chromedp.Sleep(1500*time.Millisecond))
				}
				a.picture(full)
			}
		}
	}
}
