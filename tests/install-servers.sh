#!/bin/sh
# Installs what tests need from Debian (servers, a browser, openssl, HAProxy, a C compiler, headers of libcurl and zlib), as root through apt.
set -eu
missing=""
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="postgresql postgresql-contrib"
[ -x /usr/sbin/mariadbd ] || missing="$missing mariadb-server"
command -v redis-server >/dev/null || missing="$missing redis-server"
{ command -v sshd || [ -x /usr/sbin/sshd ]; } >/dev/null || missing="$missing openssh-server"
{ command -v apache2 || [ -x /usr/sbin/apache2 ]; } >/dev/null || missing="$missing apache2-bin apache2-utils"
[ -e /etc/apache2/apache2.conf ] || missing="$missing apache2"
[ -e /usr/share/tomcat10/bin/catalina.sh ] || missing="$missing tomcat10"
{ command -v haproxy || [ -x /usr/sbin/haproxy ]; } >/dev/null || missing="$missing haproxy"
command -v jcmd >/dev/null || missing="$missing openjdk-17-jdk-headless"
command -v mvn >/dev/null || missing="$missing maven"
command -v zstd >/dev/null || missing="$missing zstd"
command -v chromium >/dev/null || missing="$missing chromium"
command -v openssl >/dev/null || missing="$missing openssl"
command -v cc >/dev/null || command -v gcc >/dev/null || missing="$missing gcc libc6-dev"
ls /usr/include/curl/curl.h /usr/include/*/curl/curl.h >/dev/null 2>&1 || missing="$missing libcurl4-openssl-dev"
[ -e /usr/include/zlib.h ] || missing="$missing zlib1g-dev"
if [ -z "$missing" ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "not root, or no apt-get: tests that need$(printf ' %s' $missing) will be skipped"
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# No cluster and no service of the system's own: the tests make theirs.
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" > /etc/postgresql-common/createcluster.conf
if [ ! -e /usr/sbin/policy-rc.d ]; then
  printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
