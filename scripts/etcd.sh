#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# etcd.sh PORT DIR [OPTION...]: an etcd server on 127.0.0.1:PORT, which talks to its peers on PORT+10000,
# with its data in DIR, in this very process, so that signals reach it. Installs Debian's
# package if it is not there and root asks.
# etcd.sh --install: only that.
set -eu

if ! command -v etcd >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "etcd is missing: install it, with Debian as root: apt-get install etcd-server" >&2
		exit 3
	fi
	# Tests of several packages may come here at once.
	exec 9>"${TMPDIR:-/tmp}/headgate-install-etcd.lock"
	flock 9
	if ! command -v etcd >/dev/null; then
		{
			apt-get update -qq
			apt-get install -y -qq --no-install-recommends etcd-server
		} </dev/null >&2 || exit 3
	fi
	exec 9>&-
fi
[ "$1" != --install ] || exit 0

port=$1 dir=$2
shift 2
peer=http://127.0.0.1:$((port + 10000))
exec etcd --name headgate --data-dir "$dir" --logger zap --log-level error \
	--listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
	--listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" --initial-cluster "headgate=$peer" "$@"
