#!/usr/bin/env bash
# Installs Apptainer where it is missing (as root). Knows Debian 12 and newer and Ubuntu; elsewhere it says what to do.
#
# Debian keeps Apptainer in its unstable suite only. It is fetched from the archive this machine already uses, signature
# checked, without adding an apt source and without touching the C library: on Debian 12 the programs are pointed at the
# older C library's equal functions (containers/older_glibc.py) and the package is rebuilt with that dependency relaxed.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=${APPTAINER_DEB_DIR:-/var/cache/ectype/apptainer-deb}
python=${PYTHON:-python3}
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

fail() { printf 'Apptainer could not be installed: %s\n%s\n' "$1" "${2:-}" >&2; exit 1; }

apt_lists() { compgen -G '/var/lib/apt/lists/*Packages*' >/dev/null || apt-get update -q; }

from_debian_unstable() {
  local uri sid deb
  uri=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' |
    awk -v codename="$VERSION_CODENAME" '$2 == codename && $3 == "Debian" && $4 == "main" { print $1; exit }')
  [ -n "$uri" ] || fail "apt knows no Debian archive" "Add one to /etc/apt/sources.list, then run this again."
  mkdir -p "$work"/{lists/partial,cache/archives/partial}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri sid main" > "$work/sid.list"
  sid=(-o Dir::Etc::sourcelist="$work/sid.list" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$work/lists"
    -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none)
  apt-get update -q "${sid[@]}"
  (cd "$work" && rm -f apptainer*.deb && apt-get download -q "${sid[@]}" apptainer/sid)
  deb=$(compgen -G "$work/apptainer_*.deb")
  if ! dpkg --compare-versions "$(dpkg-query -W -f '${Version}\n' libc6 | head -n 1)" ge 2.38; then
    for_older_glibc "$deb"
    deb="$work/apptainer-older-glibc.deb"
  fi
  apt-get install -yq --no-install-recommends "$deb" squashfuse fuse-overlayfs fuse3 e2fsprogs
  rm -rf "$work"
}

# for_older_glibc DEB : writes apptainer-older-glibc.deb beside it
for_older_glibc() {
  local tree="$work/tree" programs
  [ "$(dpkg --print-architecture)" = amd64 ] ||
    fail "Debian 12 on $(dpkg --print-architecture) is not covered" "Use Debian 13, or the packages of the Apptainer project."
  rm -rf "$tree"
  dpkg-deb -R "$1" "$tree"
  mapfile -t programs < <(find "$tree/usr" -type f -perm -u+x -exec sh -c 'head -c 4 "$1" | grep -q ELF && echo "$1"' _ {} \;)
  "$python" "$here/older_glibc.py" "${programs[@]}" || with_private_glibc "$tree" "${programs[@]}"
  sed -i -E 's/^(Version: .*)$/\1+older.glibc/; /^Depends:/s/libc6 \(>= [^)]*\)/libc6 (>= 2.34)/' "$tree/DEBIAN/control"
  (cd "$tree" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
  dpkg-deb --root-owner-group -Zgzip -z1 -b "$tree" "$work/apptainer-older-glibc.deb" >/dev/null
}

# with_private_glibc TREE PROGRAM... : a copy of the newer C library for these programs alone
with_private_glibc() {
  local tree=$1 folder=/usr/lib/x86_64-linux-gnu/apptainer/glibc program
  shift
  apt-get install -yq --no-install-recommends patchelf
  (cd "$work" && rm -f libc6_*.deb && apt-get download -q "${sid[@]}" libc6/sid && rm -rf libc6 && dpkg-deb -x libc6_*.deb libc6)
  mkdir -p "$tree$folder"
  find "$work/libc6" -type f \( -name 'ld-linux-x86-64.so.2' -o -name 'lib*.so.[0-9]*' \) \
    -not -path '*/gconv/*' -not -path '*/audit/*' -exec cp {} "$tree$folder/" \;
  for program in "$@"; do
    patchelf --set-interpreter "$folder/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$folder" "$program"
  done
}

offered() { apt_lists && apt-cache policy apptainer | grep -q 'Candidate: [0-9]'; }

from_ubuntu_ppa() {
  apt-get install -yq --no-install-recommends software-properties-common
  add-apt-repository -y ppa:apptainer/ppa
  apt-get install -yq --no-install-recommends apptainer
}

if ! apptainer --version >/dev/null 2>&1; then
  . /etc/os-release
  elsewhere="Install Apptainer 1.2 or newer without set-uid, as root, then run this again:
  Fedora, RHEL, Rocky, Alma:  dnf install epel-release && dnf install apptainer
  openSUSE:                   zypper install apptainer
  Arch:                       pacman -S apptainer
  a cluster:                  ask its administrators; many have it as a module (module avail apptainer)
  without root:               the Apptainer project's install-unprivileged.sh"
  [ "$(id -u)" = 0 ] || fail "this needs root" "$elsewhere"
  case "$ID ${ID_LIKE:-}" in
    *ubuntu* | *debian*) ;;
    *) fail "$PRETTY_NAME is not a distribution this script knows" "$elsewhere" ;;
  esac
  if offered; then
    apt-get install -yq --no-install-recommends apptainer
  elif [[ "$ID ${ID_LIKE:-}" == *ubuntu* ]]; then
    from_ubuntu_ppa
  else
    from_debian_unstable
  fi
fi

if [ "$(id -u)" = 0 ]; then
  # ordinary users mount images through /dev/fuse; udev opens it on a plain Debian, a container often has it closed
  if [ -e /dev/fuse ] && [ "$(stat -c %a /dev/fuse)" != 666 ]; then chmod 666 /dev/fuse; fi
  # Apptainer binds this file by default and fails where the host has none
  if [ ! -e /etc/localtime ]; then rm -f /etc/localtime; : > /etc/localtime; fi
fi
apptainer --version
