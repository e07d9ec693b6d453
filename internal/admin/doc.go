// SPDX-License-Identifier: Apache-2.0

// Package admin is the HTTP server for those who run a daemon.
//
//	GET /metrics             for Prometheus
//	GET /healthz, /livez     200 while the process runs
//	GET /readyz              200 while it takes requests, else 503, with a Health as JSON
//	GET /debug/pprof/        profiles of Go, to callers on this machine only
//
// The server is in plain text and asks for no password: the operator chooses who can
// reach its address. Profiles cost time and show what runs, so they are for those who
// are on the machine already.
//
// Out of scope: what is measured, and what there is to check.
package admin
