// SPDX-License-Identifier: Apache-2.0

package browsertest

import (
	"context"
	_ "embed" // axe-core
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/headgate/headgate/internal/waittest"
)

var update = flag.Bool("update", false, "write the pictures of docs/operators.md")

//go:embed testdata/axe.min.js
var axe string

// browser is a Chromium for one test.
func browser(t *testing.T) context.Context {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "../../scripts/chromium.sh", "--install").Output()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("Chromium is missing, and CI must have it: ", err)
		}
		t.Skip("Chromium is missing: sh scripts/chromium.sh --install: ", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(strings.TrimSpace(string(out))), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // starts it
		t.Fatal(err)
	}
	return ctx
}

// tab is a tab of a browser, with its own cookies.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex // guards what follows
	problems []string   // that the page had
}

// maxDay is how long a tab may be used, on a busy machine as well.
const maxDay = 8 * time.Minute

// open opens a tab of browser.
func open(t *testing.T, browser context.Context) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	ctx, cancelTime := context.WithTimeout(ctx, maxDay)
	t.Cleanup(cancelTime)
	b := &tab{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.problems = append(b.problems, fmt.Sprintf("%+v", e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			if said := console(e); (e.Type == "error" || e.Type == "warning") && !aborted.MatchString(said) {
				b.problems = append(b.problems, said)
			}
		case *log.EventEntryAdded: // of the network, and of the Content-Security-Policy
			if e.Entry.Level == "error" {
				b.problems = append(b.problems, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	b.do(b.size(1280, 900), b.dark(false))
	return b
}

// aborted is what htmx says when a request ends because another takes its place, or because the
// page is left. It says the first for each request that has no answer, beside the reason.
var aborted = regexp.MustCompile(`^htmx:(afterRequest|sendAbort)\b`)

// console is what the page wrote to its console.
func console(e *runtime.EventConsoleAPICalled) string {
	var said []string
	for _, arg := range e.Args {
		text := arg.Description // of an object
		if json.Unmarshal(arg.Value, &text) != nil && len(arg.Value) > 0 {
			text = string(arg.Value)
		}
		said = append(said, text)
	}
	return strings.Join(said, " ")
}

// step is what a tab is told to do.
type step = chromedp.Action[chromedp.Void]

func (b *tab) size(width, height int64) step {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
		return err
	})
}

// do does what steps say.
func (b *tab) do(steps ...step) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.mu.Lock()
		problems := b.problems
		b.mu.Unlock()
		b.t.Fatalf("%v\nthe page: %s\nits problems: %v", err, b.text(), problems)
	}
}

// is evaluates an expression of the page.
func is[T any](b *tab, expression string, options ...chromedp.EvaluateOption) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, options...))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// text is what the page says.
func (b *tab) text() string {
	text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string](`document.body ? document.body.innerText : ""`)) // else it says nothing
	return text
}

// says waits until the page has a text.
func (b *tab) says(want string) {
	b.t.Helper()
	quoted, _ := json.Marshal(want)
	b.until(`document.body && document.body.innerText.includes(` + string(quoted) + `)`)
}

// until waits until an expression of the page is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	done := false
	defer func() {
		if !done {
			b.t.Logf("waited for %s on the page:\n%s", expression, b.text())
		}
	}()
	waittest.Until(b.t, expression, func() bool { // the page may be another one meanwhile
		is, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		done = err == nil && is
		return done
	})
}

// login logs in with a token.
func (b *tab) login(at, token string) {
	b.t.Helper()
	b.do(chromedp.Navigate(at), chromedp.WaitVisible("#token"), chromedp.SendKeys("#token", token), chromedp.Click("form button.main"))
}

// expect takes the problems away that the page was to have.
func (b *tab) expect(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := b.problems[:0]
	for _, p := range b.problems {
		if !strings.Contains(p, text) {
			kept = append(kept, p)
		}
	}
	b.problems = kept
}

// clean fails the test if the page had a problem, or has one for people who use it
// otherwise than by eye and mouse.
func (b *tab) clean(where string) {
	b.t.Helper()
	b.mu.Lock()
	problems := append([]string(nil), b.problems...)
	b.mu.Unlock()
	if len(problems) > 0 {
		b.t.Errorf("%s: %q", where, problems)
	}
	is[int](b, axe+"; 0")
	found := is[[]struct {
		ID    string `json:"id"`
		Help  string `json:"help"`
		Nodes []struct {
			HTML    string `json:"html"`
			Summary string `json:"failureSummary"`
		} `json:"nodes"`
	}](b, `axe.run(document, {resultTypes: ["violations"]}).then((r) => JSON.parse(JSON.stringify(r.violations)))`, chromedp.EvalAwaitPromise)
	for _, v := range found {
		b.t.Errorf("%s: %s: %s: %.600s", where, v.ID, v.Help, fmt.Sprint(v.Nodes))
	}
}

// slow has the tab wait for each answer for at least that long.
func (b *tab) slow(latency time.Duration) step {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{Latency: float64(latency.Milliseconds()), DownloadThroughput: -1, UploadThroughput: -1}},
		})
		return err
	})
}

// without has the tab load no script from now on, or all of them again.
func (b *tab) without(scripts bool) step {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: "http://*:*/static/*.js", Block: scripts}}})
		return err
	})
}

// dark has the tab ask for dark pages, or for light ones.
func (b *tab) dark(on bool) step {
	scheme := "light"
	if on {
		scheme = "dark"
	}
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	})
}

// picture writes what the tab shows into docs/img.
func (b *tab) picture(name string) {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join("..", "..", "docs", "img", "pages-"+name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// press waits for a button that can be used, and presses it. Nothing can take its place in between.
func press(button string) step {
	script := fmt.Sprintf(`(() => { const b = document.querySelector(%q); if (!b || b.disabled || !b.checkVisibility() || getComputedStyle(b).pointerEvents === "none") return false; b.click(); return true; })()`, button)
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		for {
			pressed, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script))
			if err != nil || pressed {
				return err
			}
			if _, err := chromedp.Run(ctx, chromedp.Sleep(20*time.Millisecond)); err != nil {
				return err
			}
		}
	})
}

// set replaces the text of a field as a person does: with an event of input.
func set(field, text string) step {
	quoted, _ := json.Marshal(text)
	script := fmt.Sprintf(`(() => { const f = document.querySelector(%q); f.focus(); f.value = %s; f.dispatchEvent(new Event("input", {bubbles: true})); return 0; })()`, field, quoted)
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[int](script))
		return err
	})
}
