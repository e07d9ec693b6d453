#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# postgres.sh PORT DIR: a PostgreSQL server on 127.0.0.1:PORT with its data in DIR,
# which is made if it is not there, in this very process, so that signals reach it. The
# user postgres needs no password. Installs Debian's package if it is not there and root
# asks. As root, the server runs as the user postgres, as it must.
# postgres.sh --install: only that.
set -eu

# Debian keeps the programs of each version in a folder of its own.
bin() { ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1; }

if [ -z "$(bin)" ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		echo "PostgreSQL is missing: install it, with Debian as root: apt-get install postgresql" >&2
		exit 3
	fi
	# Tests of several packages may come here at once.
	exec 9>"${TMPDIR:-/tmp}/headgate-install-postgres.lock"
	flock 9
	if [ -z "$(bin)" ]; then
		{
			apt-get update -qq
			apt-get install -y -qq --no-install-recommends postgresql
		} </dev/null >&2 || exit 3
	fi
	exec 9>&-
fi
[ "$1" != --install ] || exit 0

port=$1 dir=$2 bin=$(bin)
as=
if [ "$(id -u)" = 0 ]; then
	as="setpriv --reuid=postgres --regid=postgres --clear-groups"
	mkdir -p "$dir"
	chown postgres "$dir"
fi
cd /
# shellcheck disable=SC2086 # $as is several words
[ -e "$dir/PG_VERSION" ] || LC_ALL=C $as "$bin/initdb" --pgdata "$dir" --username postgres --auth trust --encoding UTF8 --no-sync >/dev/null
# shellcheck disable=SC2086
exec $as "$bin/postgres" -D "$dir" -c listen_addresses=127.0.0.1 -c port="$port" -c unix_socket_directories= -c max_connections=100
