"""Runs a cluster of our own with two CPUs for as long as its standard input is open."""

import json
import os
import sys

from synth.pipeline.cluster import Cluster, ray

cluster = Cluster(2)
found = {name: os.environ[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN")}
found["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
sys.stdout.write(json.dumps({"environment": found, "folder": str(cluster._folder)}) + "\n")
sys.stdout.flush()
sys.stdin.read()
cluster.leave()
