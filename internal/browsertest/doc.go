// SPDX-License-Identifier: Apache-2.0

// Package browsertest opens the pages of operators in a real Chromium, against five real
// daemons under load. It is a module of its own, because it needs what drives the browser.
//
//	go test .                # Chromium has to be there: sh ../../scripts/chromium.sh --install
//	go test . -args -update  # and write the pictures of docs/operators.md anew
//
// testdata/axe.min.js is axe-core 4.14.1, https://github.com/dequelabs/axe-core, unchanged
// from npm, under the licence in testdata/axe.LICENSE. It looks for what keeps people from
// using a page.
package browsertest
