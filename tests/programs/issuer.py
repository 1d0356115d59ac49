"""An issuer of CI identities on the loopback address: discovery, keys that rotate, and trouble on demand.

Real HTTP and real RS256 signatures. It also plays the address at which GitHub Actions gives a job its
identity.
"""

import json
import threading
import uuid
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

Json = dict[str, Any]

REQUEST_TOKEN = "what-only-this-job-knows"
_LARGE = 2**20


@cache
def _private_key(name: str, bits: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def private_key(name: str, *, bits: int = 2048) -> rsa.RSAPrivateKey:
    """Return the key of this name, made once: that takes a while."""
    return _private_key(name, bits)


def public_pem(name: str) -> bytes:
    return (
        private_key(name)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )


def jwk(name: str, *, bits: int = 2048, **members: Any) -> Json:
    numbers = private_key(name, bits=bits).public_key().public_numbers()
    return {
        "kty": "RSA",
        "alg": "RS256",
        "use": "sig",
        "kid": name,
        "n": _base64(numbers.n),
        "e": _base64(numbers.e),
        **members,
    }


def _base64(number: int) -> str:
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def job_claims(**claims: Any) -> Json:
    """Return what a job of a pull request of octo-org/octo-repo claims, but for times and audience."""
    return {
        "repository": "octo-org/octo-repo",
        "repository_id": "74",
        "repository_owner": "octo-org",
        "repository_owner_id": "65",
        "repository_visibility": "private",
        "actor": "octocat",
        "actor_id": "12",
        "workflow": "evals",
        "workflow_sha": "f" * 40,
        "runner_environment": "github-hosted",
        "run_id": "1296269001",
        "run_number": "10",
        "run_attempt": "1",
        "check_run_id": "100084904124",
        "sub": "repo:octo-org/octo-repo:pull_request",
        "ref": "refs/pull/7/merge",
        "ref_type": "branch",
        "ref_protected": "false",
        "sha": "b" * 40,
        "head_ref": "feature",
        "base_ref": "main",
        "event_name": "pull_request",
        "workflow_ref": "octo-org/octo-repo/.github/workflows/evals.yml@refs/pull/7/merge",
        "job_workflow_ref": "octo-org/octo-repo/.github/workflows/evals.yml@refs/pull/7/merge",
        **claims,
    }


def on_main(**claims: Any) -> Json:
    """Return what a job on the protected default branch claims."""
    workflow = "octo-org/octo-repo/.github/workflows/evals.yml@refs/heads/main"
    told = {"event_name": "push", "ref": "refs/heads/main", "ref_protected": "true"}
    workflows = {"workflow_ref": workflow, "job_workflow_ref": workflow}
    return job_claims(**{**told, **workflows, "head_ref": "", "base_ref": "", **claims})


class Issuer(ThreadingHTTPServer):
    """What it has and does. `trouble` is what the next requests meet, until it is taken away."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.requests: Counter[str] = Counter()
        self.trouble = ""
        self.jwks: Json = {"keys": [jwk("first")]}
        self.discovery: Json = {"issuer": self.url, "jwks_uri": f"{self.url}/.well-known/jwks"}
        self.job = job_claims()
        """The claims of the job that asks for its identity."""
        self.now = 0
        """The time of what is given to that job, in seconds."""

    @property
    def documents(self) -> dict[str, Json]:
        """Return what lies at each address; at the last one nobody should look."""
        return {
            "/.well-known/openid-configuration": self.discovery,
            "/.well-known/jwks": self.jwks,
            "/elsewhere": self.jwks,
        }

    @property
    def troubles(self) -> dict[str, tuple[int, Any, str]]:
        return {
            "down": (503, {}, ""),
            "redirect": (302, {}, f"{self.url}/elsewhere"),
            "large": (200, {"keys": [], "padding": "x" * _LARGE}, ""),
            "not JSON": (200, "<html>", ""),
            "a list": (200, [], ""),
        }

    @property
    def questions(self) -> int:
        """Return how often somebody asked for keys."""
        return self.requests["/.well-known/openid-configuration"]

    def rotate(self, *names: str) -> None:
        """Sign with other keys from now on: those of these names are told."""
        self.jwks = {"keys": [jwk(name) for name in names]}

    def signed(
        self,
        claims: Json,
        *,
        at: int,
        audience: str,
        key: str = "first",
        headers: Json | None = None,
    ) -> str:
        """Return a token as GitHub makes them: good from ten minutes ago for five minutes from now."""
        times = {"iat": at, "nbf": at - 600, "exp": at + 300}
        base = {"iss": self.url, "aud": audience, "jti": str(uuid.uuid4()), **times}
        payload = {name: value for name, value in {**base, **claims}.items() if value is not None}
        extra = {"kid": key, "x5t": "bm90IGxvb2tlZCBhdA", **(headers or {})}
        return jwt.encode(payload, private_key(key), algorithm="RS256", headers=extra)

    @property
    def job_variables(self) -> dict[str, str]:
        """Return what GitHub Actions sets for a job with `id-token: write`."""
        return {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{self.url}/mint?api-version=2.0",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": REQUEST_TOKEN,
        }


class _Handler(BaseHTTPRequestHandler):
    server: Issuer

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        issuer, parts = self.server, urlsplit(self.path)
        issuer.requests[parts.path] += 1
        if issuer.trouble:
            self._answer(*issuer.troubles[issuer.trouble])
        elif parts.path == "/mint":
            self._mint(parse_qs(parts.query))
        else:
            found = issuer.documents.get(parts.path)
            self._answer(404 if found is None else 200, found)

    def _mint(self, query: dict[str, list[str]]) -> None:
        if self.headers.get("Authorization") != f"bearer {REQUEST_TOKEN}":
            self._answer(403, {"message": "no id-token permission"})
            return
        assert query["api-version"] == ["2.0"]
        (audience,) = query["audience"]
        token = self.server.signed(self.server.job, at=self.server.now, audience=audience)
        self._answer(200, {"value": token})

    def _answer(self, status: int, document: Any, location: str = "") -> None:
        body = (document if isinstance(document, str) else json.dumps(document)).encode()
        self.send_response(status)
        if location:
            self.send_header("Location", location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving_issuer() -> Iterator[Issuer]:
    """Run an issuer while the block runs."""
    issuer = Issuer()
    # A short poll, so that a test does not wait half a second for its server to end.
    thread = threading.Thread(target=issuer.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield issuer
    finally:
        issuer.shutdown()
        thread.join()
        issuer.server_close()
