"""TLS with a certificate of one's own authority."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore
from jazzmine_dspy.models.errors import InputError, MemoryUnavailableError
from tls_proxy import tls_proxy

pytestmark = pytest.mark.row("U15")


async def test_an_authority_of_ones_own_is_named_in_the_address(harness: Any, tmp_path: Path) -> None:
    async with tls_proxy(urlsplit(harness.url).port, tmp_path) as (port, authority):
        url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={authority}"
        store = RedisWorkingMemoryStore(url, prefix=harness.prefix)
        async with store.turn("c"):
            assert (await store.get_or_create("c", "u1")).version == 0
        await store.close()


async def test_with_verification_off_any_certificate_will_do(harness: Any, tmp_path: Path) -> None:
    async with tls_proxy(urlsplit(harness.url).port, tmp_path) as (port, _):
        store = RedisWorkingMemoryStore(
            f"rediss://127.0.0.1:{port}?ssl_cert_reqs=none", prefix=harness.prefix
        )
        assert await store.get("c") is None
        await store.close()


@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster"])
async def test_an_unknown_authority_is_an_error_that_names_the_certificate(
    harness: Any, tmp_path: Path, scheme: str
) -> None:
    async with tls_proxy(urlsplit(harness.url).port, tmp_path) as (port, _):
        store = RedisWorkingMemoryStore(f"{scheme}://bot:s3cret@127.0.0.1:{port}")
        with pytest.raises(MemoryUnavailableError, match="certificate of Redis is not trusted") as caught:
            await store.get("c")
        assert "ssl_ca_certs" in caught.value.remedy
        assert "s3cret" not in str(caught.value)
        await store.close()


async def test_a_certificate_of_another_host_is_an_error_that_names_it(harness: Any, tmp_path: Path) -> None:
    async with tls_proxy(urlsplit(harness.url).port, tmp_path, "cache.example") as (port, authority):
        store = RedisWorkingMemoryStore(f"rediss://127.0.0.1:{port}?ssl_ca_certs={authority}")
        with pytest.raises(MemoryUnavailableError, match="names another host"):
            await store.get("c")
        await store.close()


@pytest.mark.parametrize("scheme", ["rediss", "rediss+cluster"])
@pytest.mark.parametrize("wrong", ["CERT_NONE", "CERT_OPTIONAL", "CERT_REQUIRED", "ssl.CERT_NONE", "never"])
def test_the_spelling_of_celery_is_refused_with_the_right_one(scheme: str, wrong: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"ssl_cert_reqs is {wrong!r}")) as caught:
        RedisWorkingMemoryStore(f"{scheme}://:s3cret@cache?ssl_ca_certs=/ca.pem&ssl_cert_reqs={wrong}")
    assert "ssl_cert_reqs=none, optional or required" in caught.value.remedy
    assert "s3cret" not in str(caught.value)
