"""Decodes KV events and hashes blocks with the classes and functions of vLLM 0.33.0. Other modules of vLLM are stubs.

Reads orders as lines of JSON, and answers each with a line of JSON. The first argument is the folder of the package.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import logging
import os
import sys
import types

FOLDER = sys.argv[1]
REAL = ("vllm.utils.hashing", "vllm.v1.core.kv_cache_utils", "vllm.distributed.kv_events")


class Stub(types.ModuleType):
    """A module that has a class of every name."""

    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = type(name, (), {})
        setattr(self, name, found)
        return found


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] not in ("vllm", "torch", "numpy"):
            return None
        if name in REAL:
            return importlib.util.spec_from_file_location(name, f"{FOLDER}/{name.replace('.', '/')}.py")
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        if module.__name__ == "vllm.logger":
            module.init_logger = logging.getLogger
        if module.__name__ == "vllm":
            module.envs = types.SimpleNamespace(VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=True)


sys.meta_path.insert(0, Finder())

import msgspec  # noqa: E402
import vllm.distributed.kv_events as events  # noqa: E402
import vllm.utils.hashing as hashing  # noqa: E402
import vllm.v1.core.kv_cache_utils as utils  # noqa: E402

HASH = bytes | int
STORED = [("block_hashes", list[HASH]), ("parent_block_hash", HASH | None), ("token_ids", list[int]), ("block_size", int)]
STORED += [("lora_id", int | None)]
MEDIUM = ("medium", str | None)
LORA_NAME = ("lora_name", str | None)
KEYS = ("extra_keys", list[tuple | None] | None, None)
GROUP = ("group_idx", int | None, None)
SPEC = [("kv_cache_spec_kind", str | None, None), ("kv_cache_spec_sliding_window", int | None, None)]
LOCALITY = ("locality", str | None, None)
OWNERSHIP = ("ownership", str | None, None)
SESSION = ("session_id", str | None, None)
REMOVED = [("block_hashes", list[HASH])]
# Fields of the stored and the removed event, and whether events are arrays.
VERSIONS = {
    "0.9.2": (STORED, REMOVED, True),
    "0.10.2": ([*STORED, MEDIUM], [*REMOVED, MEDIUM], True),
    "0.14.0": ([*STORED, MEDIUM, LORA_NAME], [*REMOVED, MEDIUM], True),
    "0.18.0": ([*STORED, MEDIUM, LORA_NAME, KEYS], [*REMOVED, MEDIUM], True),
    "0.22.0": ([*STORED, MEDIUM, LORA_NAME, KEYS, GROUP, *SPEC], [*REMOVED, MEDIUM, GROUP], True),
    "0.26.0": (
        [*STORED, MEDIUM, LORA_NAME, KEYS, GROUP, *SPEC, LOCALITY],
        [*REMOVED, MEDIUM, GROUP, LOCALITY],
        False,
    ),
    "0.30.0": (
        [*STORED, MEDIUM, LORA_NAME, KEYS, GROUP, *SPEC, LOCALITY, OWNERSHIP, SESSION],
        [*REMOVED, MEDIUM, GROUP, LOCALITY, OWNERSHIP],
        False,
    ),
}


def batch_of(profile):
    """Returns the class of a batch. That of 0.33.0 is the real one."""
    if profile == "0.33.0":
        return events.KVEventBatch
    stored, removed, is_array = VERSIONS[profile]
    form = {"array_like": is_array, "omit_defaults": True}
    kinds = [
        msgspec.defstruct("BlockStored", stored, tag="BlockStored", forbid_unknown_fields=True, **form),
        msgspec.defstruct("BlockRemoved", removed, tag="BlockRemoved", forbid_unknown_fields=True, **form),
        msgspec.defstruct("AllBlocksCleared", [], tag="AllBlocksCleared", forbid_unknown_fields=True, **form),
    ]
    union = kinds[0] | kinds[1] | kinds[2]
    fields = [("ts", float), ("events", list[union]), ("data_parallel_rank", int | None, None)]
    return msgspec.defstruct("KVEventBatch", fields, array_like=True, omit_defaults=True)


def shown(value):
    """Makes a value fit for JSON: hashes become texts."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return [shown(one) for one in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def event_of(event):
    fields = {name: shown(getattr(event, name)) for name in event.__struct_fields__}
    return {"type": type(event).__name__, **fields}


def decode(profile, payloads):
    decoder = msgspec.msgpack.Decoder(batch_of(profile))
    encoder = msgspec.msgpack.Encoder()
    batches = [decoder.decode(bytes.fromhex(payload)) for payload in payloads]
    return {
        "batches": [{"ts": batch.ts, "rank": batch.data_parallel_rank, "events": [event_of(e) for e in batch.events]} for batch in batches],
        "again": [encoder.encode(batch).hex() for batch in batches],
    }


class Lora:
    def __init__(self, name, path):
        self.lora_name = name
        self.lora_path = path


class Request:
    """The members of a request that hashing reads."""

    def __init__(self, tokens, lora, salt):
        self.all_token_ids = tokens
        self.num_tokens = len(tokens)
        # Texts of a request come from a message, so that no two of them are the same object.
        self.lora_request = Lora(*(json.loads(json.dumps(part)) for part in lora)) if lora else None
        self.cache_salt = salt or None
        self.block_hashes = []
        self.mm_features = []
        self.prompt_embeds = None


def hashes(algorithm, seed, block_size, requests):
    os.environ["PYTHONHASHSEED"] = seed
    function = hashing.get_hash_fn_by_name(algorithm)
    utils.init_none_hash(function)
    hasher = utils.get_request_block_hasher(block_size, function)
    made = [Request(**request) for request in requests]
    return {
        "hashes": [[one.hex() for one in hasher(request)] for request in made],
        "first_keys": [
            shown(utils.to_event_extra_keys([utils.generate_block_hash_extra_keys(request, 0, block_size, 0)[0]]))
            for request in made
        ],
        "low64": [[str(utils.maybe_convert_block_hash(one)) for one in hasher(request)] for request in made],
    }


for line in sys.stdin:
    order = json.loads(line)
    print(json.dumps({"decode": decode, "hashes": hashes}[order.pop("order")](**order)), flush=True)
