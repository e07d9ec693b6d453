#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# redis.sh PORT DIR [OPTION...]: a redis-server on 127.0.0.1:PORT that writes
# nothing to disk, in this very process, so that signals reach it. DIR is for
# what a cluster's node writes. Installs Debian's package if it is not there
# and root asks.
# redis.sh --install: only that.
set -eu

if ! command -v redis-server >/dev/null; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "redis-server is missing: install it, with Debian as root: apt-get install redis-server" >&2
		exit 3
	fi
	# Tests of several packages may come here at once.
	exec 9>"${TMPDIR:-/tmp}/headgate-install-redis.lock"
	flock 9
	if ! command -v redis-server >/dev/null; then
		{
			apt-get update -qq
			apt-get install -y -qq --no-install-recommends redis-server
		} </dev/null >&2 || exit 3
	fi
	exec 9>&-
fi
[ "$1" != --install ] || exit 0

port=$1 dir=$2
shift 2
exec redis-server --bind 127.0.0.1 --port "$port" --dir "$dir" --save "" --appendonly no --daemonize no --loglevel warning "$@"
