"""Validates Kubernetes objects with kubernetes-validate. Standard input: JSON {"versions": [...], "objects": [...]}.
Prints a JSON list with a list of errors per object, each as "version: path: message"."""

import functools
import json
import sys

from kubernetes_validate import utils

# The package reads its definitions, 1.8 MB, again for each object.
utils.schema_contents = functools.lru_cache(maxsize=None)(utils.schema_contents)


def errors(item, versions):
    found = []
    for version in versions:
        try:
            utils.validate(item, version, strict=True)
        except utils.ValidationError as error:
            path = ".".join(str(part) for part in error.path)
            found.append(f"{version}: {path}: {error.message[:300]}")
        except utils.SchemaNotFoundError as error:
            found.append(f"{version}: {error.message}")
    return found


asked = json.load(sys.stdin)
print(json.dumps([errors(item, asked["versions"]) for item in asked["objects"]]))
