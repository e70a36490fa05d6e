#!/bin/sh
# Installs the Debian servers that tests need, as root through apt; elsewhere those tests skip with a reason.
set -eu
if ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "not root, or no apt-get: tests on Debian's PostgreSQL will be skipped"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# No cluster of the system's own: the tests make theirs.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
apt-get update -qq
apt-get install -y -qq postgresql postgresql-contrib >/dev/null
