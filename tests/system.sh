#!/usr/bin/env bash
# Install what tests need beside Python packages: servers, a browser, GDAL's programs, readers in JavaScript.
#
# What cannot be installed is told; the tests that need it are skipped, and say what to install.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# what is looked for, and Debian's package that has it
declare -A packages=([nginx]=nginx-light [chromium]=chromium [gdalinfo]=gdal-bin [node]=nodejs [npm]=npm
  [opj_compress]=libopenjp2-tools)
missing=()
for program in "${!packages[@]}"; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
ldconfig -p 2>/dev/null | grep -q libopenjp2 || missing+=(libopenjp2-7) # glymur binds it and does not bring it

if ((${#missing[@]})); then
  if [[ $EUID -eq 0 ]] && command -v apt-get >/dev/null; then
    echo "Installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq -o DPkg::Lock::Timeout=300 >/dev/null
    for package in "${missing[@]}"; do
      apt-get install -qqy -o DPkg::Lock::Timeout=300 --no-install-recommends "$package" >/dev/null ||
        echo "$package cannot be installed: the tests that need it are skipped."
    done
  else
    echo "Missing: ${missing[*]}. The tests that need them are skipped; on Debian: apt-get install ${missing[*]}"
  fi
fi

if command -v npm >/dev/null; then
  (cd clients && npm ci --silent) || echo "The packages of tests/clients cannot be installed: tests by zarrita are skipped."
fi

# not in the environment: it registers the names of our own codecs for manifests of its kind
"${PYTHON:-../.venv/bin/python}" -m pip install --quiet --no-deps --upgrade --target clients/osml osml-imagery-io==0.2.2 ||
  echo "osml-imagery-io cannot be installed: tests by its reader are skipped."

# without what its own server needs: that cannot be beside fastparquet
"${PYTHON:-../.venv/bin/python}" -m pip install --quiet --no-deps titiler-xarray==2.4.0 ||
  echo "titiler-xarray cannot be installed: tests by it are skipped."
