// SPDX-License-Identifier: Apache-2.0

// Package prometheus lets Prometheus read the metrics that packages of
// headgate keep through tally.
//
//	export, err := prometheus.New(func(err error) { log.Error("a metric is not exported", "error", err) })
//	…
//	node, err := headgate.New(config, source, members, headgate.WithScope(export.Scope()))
//	http.Handle("/metrics", export)
//	…
//	err = export.Close()
//
// Dots in names become underscores: `headgate.limiter.keys` is
// headgate_limiter_keys. Values are as of the last second.
//
// Out of scope: where it is served, and what there is to measure. An Export is safe for concurrent
// use: locks in it guard the names, the histograms, and an answer under way.
package prometheus
