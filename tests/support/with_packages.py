#!/usr/bin/env python3
"""Runs a test with the Python packages of an environment: with_packages.py ENVIRONMENT TEST.py ARGUMENT ...

Without the environment the test is skipped (exit code 77), or fails if COHORT_REQUIRE_PYTHON=1, which continuous integration
sets."""

import os
import sys

environment, *command = sys.argv[1:]
python = os.path.join(environment, "bin", "python")
if not os.path.exists(python):
    required = os.environ.get("COHORT_REQUIRE_PYTHON") == "1"
    print(f"{'FAILED' if required else 'skipped'}: no Python environment in {environment}; tools/python-environment makes it")
    sys.exit(1 if required else 77)
sys.stdout.flush()
os.execv(python, [python, *command])
