// SPDX-License-Identifier: Apache-2.0

// Package ui is the pages for operators:
//
//	/            what matters now
//	/keys        the keys in use: search, sort
//	/key         one key: why, at which member, recent decisions
//	/hosts       the members and what they own
//	/limits      the editor, the history, and the way back
//	/migrations  rules that change their algorithm, and how the two differ
//	/events      what happened
//	/login
//
//	pages := ui.New(api, host)
//	server.Handle("/", pages)
//
// Everything on a page comes from the API of package api, which the pages ask as the one who
// reads them: no one sees or does more here than there. The pages are HTML; htmx replaces
// parts of them, and uPlot draws. Both are in static, so that a browser needs no other site,
// and the pages' Content-Security-Policy allows none.
//
// Out of scope: rights, and what there is to see (package api).
package ui
