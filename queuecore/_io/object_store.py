"""Objects of S3 by obstore, where it is installed: the requests that `remote` makes of s3fs otherwise.

obstore waits without the GIL, where s3fs does each request on one event loop of Python's; and each of its requests
names the ETag of the content that it wants (If-Match). Not every server looks at that, so the ETag of each answer is
compared, too: bytes of two contents are never mixed. Keys, endpoint and region are those that the user's s3fs file
system has found, also if they expire.
"""

from __future__ import annotations

import datetime
import errno
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

__all__ = ["ObjectStore", "S3Access", "access_of", "objects_of"]

# What `client_kwargs` of s3fs may have for obstore to make the same requests.
_UNDERSTOOD = {"endpoint_url", "region_name"}

# So many ranges may fail before the first one comes.
_MOST_FAILED = 3
# How long obstore may use keys before it asks again, which it does 5 minutes earlier. s3fs renews its own long before.
_KEYS_LAST = datetime.timedelta(minutes=10)
_stores: weakref.WeakKeyDictionary[Any, dict[str, ObjectStore | None]] = weakref.WeakKeyDictionary()
_accesses: weakref.WeakKeyDictionary[Any, S3Access | None] = weakref.WeakKeyDictionary()
# Threads of obstore's are not there in a process that was forked after their start.
_parent_used = False


class ObjectStore:
    """The objects of one bucket.

    Parameters
    ----------
    store : obstore.store.S3Store
        How obstore gets there.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._failed = 0  # ranges, before the first one came

    @property
    def is_usable(self) -> bool:
        """False if the server and obstore don't understand each other, as it seems: some answer ranges by 200."""
        return self._failed < _MOST_FAILED

    def info(self, key: str) -> dict[str, Any]:
        """Return what s3fs says of an object. Raises an error of obstore's, or `FileNotFoundError`."""
        meta = import_module("obstore").head(self._store, key)
        return {
            "type": "file",
            "size": meta["size"],
            "ETag": meta["e_tag"] or "",
            # Where the server doesn't say, obstore says 1970, and s3fs nothing.
            "LastModified": meta["last_modified"] if meta["last_modified"].timestamp() else "",
        }

    def range(self, key: str, start: int, end: int, etag: str) -> Any:
        """Return bytes of an object, of this ETag if it isn't empty. Raises an error of obstore's, or `OSError`."""
        options = {"range": (start, end), **({"if_match": etag} if etag else {})}
        try:
            answer = import_module("obstore").get(self._store, key, options=options)
            if etag and answer.meta["e_tag"] != etag:  # the server doesn't look at conditions
                raise OSError(errno.ESTALE, "another object is in its place by now")
            data = answer.bytes()
        except Exception:
            self._failed += self._failed >= 0
            raise
        self._failed = -1
        return data


def objects_of(filesystem: Any, path: str) -> tuple[ObjectStore, str] | None:
    """Return where obstore finds the object of a path of s3fs, and its key there; `None`: s3fs reads it."""
    if (type(filesystem).__module__, type(filesystem).__name__) != ("s3fs.core", "S3FileSystem") or _parent_used:
        return None
    bucket, key, version = filesystem.split_path(path)
    if not key or version is not None:
        return None
    stores = _stores.setdefault(filesystem, {})
    if bucket not in stores:
        try:
            stores[bucket] = _store(filesystem, bucket)
        except Exception:  # of s3fs's connection, which it will tell by itself
            return None
    store = stores[bucket]
    return (store, key) if store is not None and store.is_usable else None


@dataclass(frozen=True)
class S3Access:
    """The needs of requests to an S3 server.

    Attributes
    ----------
    endpoint, region : str
        Its URL, without a slash at the end, and the region that signatures name.
    keys : callable or None
        Returns key, secret and token; `None`: nobody needs to be known.
    lasting : bool
        Whether these stay the same.
    """

    endpoint: str
    region: str
    keys: Callable[[], tuple[str, str, str | None]] | None
    lasting: bool


def access_of(filesystem: Any) -> S3Access | None:
    """Return how s3fs asks its server, if it asks for nothing else than others do too. Raises errors of s3fs's."""
    if filesystem not in _accesses:
        _accesses[filesystem] = _access(filesystem)
    return _accesses[filesystem]


def _access(filesystem: Any) -> S3Access | None:
    if (
        set(filesystem.client_kwargs) - _UNDERSTOOD
        or filesystem.config_kwargs
        or filesystem.s3_additional_kwargs
        or filesystem.requester_pays
    ):
        return None
    meta = filesystem.connect().meta
    endpoint = meta.endpoint_url.rstrip("/"), meta.region_name or "us-east-1"
    if filesystem.anon:
        return S3Access(*endpoint, keys=None, lasting=True)
    if filesystem.key and filesystem.secret:
        fixed = filesystem.key, filesystem.secret, filesystem.token or None
        return S3Access(*endpoint, keys=lambda: fixed, lasting=True)
    found = _found_keys(filesystem)
    return None if found is None else S3Access(*endpoint, keys=found, lasting=False)


def _found_keys(filesystem: Any) -> Callable[[], tuple[str, str, str | None]] | None:
    """Return what gives the keys that s3fs found; `None`: it has none."""
    from fsspec.asyn import sync

    session, loop = filesystem.session, filesystem.loop
    if sync(loop, session.get_credentials) is None:
        return None

    async def frozen() -> Any:
        return await (await session.get_credentials()).get_frozen_credentials()

    def keys() -> tuple[str, str, str | None]:
        known: Any = sync(loop, frozen)
        return known.access_key, known.secret_key, known.token

    return keys


def _store(filesystem: Any, bucket: str) -> ObjectStore | None:
    try:
        store_class = import_module("obstore.store").S3Store
    except ImportError:
        return None
    access = access_of(filesystem)
    if access is None:
        return None
    config: dict[str, Any] = {"region": access.region}
    if not access.endpoint.endswith(".amazonaws.com"):
        config["endpoint"] = access.endpoint
    if access.keys is None:
        config["skip_signature"] = True
    elif access.lasting:
        config.update(_named(access.keys(), "access_key_id", "secret_access_key", "session_token"))
    else:
        config["credential_provider"] = _provider(access.keys)
    # `remote` tries again by itself, and says which of the tries failed.
    config.update(client_options={"allow_http": True}, retry_config={"max_retries": 0})
    return ObjectStore(store_class(bucket, **config))


def _named(keys: tuple[str, str, str | None], *names: str) -> dict[str, str]:
    return {name: key for name, key in zip(names, keys, strict=True) if key is not None}


def _provider(keys: Callable[[], tuple[str, str, str | None]]) -> Callable[[], dict[str, Any]]:
    def provide() -> dict[str, Any]:
        key, secret, token = keys()
        until = datetime.datetime.now(datetime.UTC) + _KEYS_LAST
        return {"access_key_id": key, "secret_access_key": secret, "token": token, "expires_at": until}

    return provide


def _forked() -> None:
    global _parent_used
    _parent_used = _parent_used or any(any(stores.values()) for stores in _stores.values())
    _stores.clear()
    _accesses.clear()


os.register_at_fork(after_in_child=_forked)
