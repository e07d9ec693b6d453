#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# prometheus.sh ARGUMENT...: promtool, in this very process. Installs Debian's package prometheus,
# which has it, if it is not there and root asks.
# prometheus.sh --install: only that.
set -eu

if ! command -v promtool >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "promtool is missing: install it, with Debian as root: apt-get install prometheus" >&2
		exit 3
	fi
	# Tests of several packages may come here at once.
	exec 9>"${TMPDIR:-/tmp}/headgate-install-prometheus.lock"
	flock 9
	if ! command -v promtool >/dev/null; then
		{
			apt-get update -qq
			apt-get install -y -qq --no-install-recommends prometheus
		} </dev/null >&2 || exit 3
	fi
	exec 9>&-
fi
[ "$1" != --install ] || exit 0

exec promtool "$@"
