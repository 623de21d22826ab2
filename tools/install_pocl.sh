#!/bin/sh
# Installs the distribution's PoCL for the tests: that of PyOpenCL's wheel does not know newer CPUs.
# Only as root on Debian or Ubuntu. Elsewhere, or where it fails, tests on PoCL skip with a reason.
set -u

if ls /etc/OpenCL/vendors/pocl*.icd >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "PoCL is not installed: that takes root and apt-get (sudo apt-get install pocl-opencl-icd)"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends pocl-opencl-icd; } ||
    echo "PoCL could not be installed with apt-get: tests may skip"
