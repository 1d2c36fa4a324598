"""A FAKE of an OIDC provider: sign-in page, codes with PKCE, ID tokens of some minutes, refresh tokens.

Written from OpenID Connect Core 1.0 (https://openid.net/specs/openid-connect-core-1_0.html, sections 3.1 and
12), Discovery 1.0, and RFC 7636 (PKCE). It refuses what providers refuse: another redirect URL, client or
secret, a code a second time, a verifier that does not fit.
"""

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

PASSWORD: Final = "correct horse"  # noqa: S105 - of the users of a test
_LIFE_S: Final = 300
_KEY: Final = "one"


@dataclass(frozen=True)
class OidcClient:
    """The client of a provider."""

    name: str
    secret: str
    redirect_url: str


@dataclass(frozen=True)
class Grant:
    """What a user has allowed: by a code, or by a refresh token."""

    email: str
    nonce: str
    challenge: str


@dataclass
class Issuer:
    """A provider with users: email address → groups. ``url`` is set once it is served."""

    client: OidcClient
    users: Mapping[str, list[str]]
    url: str = ""
    codes: dict[str, Grant] = field(default_factory=dict)
    refreshes: dict[str, Grant] = field(default_factory=dict)
    renewals: int = 0
    """How often a refresh token has been used. Each can be used once."""
    key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )

    def application(self) -> web.Application:
        """The site of the provider."""
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/keys", self._keys)
        app.router.add_get("/authorize", self._form)
        app.router.add_post("/authorize", self._sign_in)
        app.router.add_post("/token", self._token)
        return app

    def id_token(self, email: str, nonce: str = "", *, life_s: int = _LIFE_S) -> str:
        """A signed ID token of the user."""
        now = int(time.time())
        claims = {
            "iss": self.url,
            "sub": hashlib.sha256(email.encode()).hexdigest()[:20],
            "aud": self.client.name,
            "iat": now,
            "exp": now + life_s,
            "email": email,
            "email_verified": True,
            "groups": self.users[email],
            **({"nonce": nonce} if nonce else {}),
        }
        text = f"{_encoded({'alg': 'RS256', 'kid': _KEY, 'typ': 'JWT'})}.{_encoded(claims)}"
        signature = self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_base64(signature)}"

    async def _discovery(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _keys(self, _: web.Request) -> web.Response:
        numbers = self.key.public_key().public_numbers()
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY}
        return web.json_response({"keys": [key | {"n": _number(numbers.n), "e": _number(numbers.e)}]})

    async def _form(self, request: web.Request) -> web.Response:
        asked = request.query
        if (asked.get("client_id"), asked.get("redirect_uri")) != (
            self.client.name,
            self.client.redirect_url,
        ):
            raise web.HTTPBadRequest(text="unknown client or redirect URL")
        if asked.get("code_challenge_method") != "S256" or "openid" not in asked.get("scope", "").split():
            raise web.HTTPBadRequest(text="PKCE with S256 and the scope openid are required")
        return web.Response(text="<form method=post>Sign in</form>", content_type="text/html")

    async def _sign_in(self, request: web.Request) -> web.Response:
        form, asked = await request.post(), request.query
        email = str(form["email"])
        if email not in self.users or form["password"] != PASSWORD:
            raise web.HTTPUnauthorized(text="wrong user or password")
        code = secrets.token_urlsafe(16)
        self.codes[code] = Grant(email, asked.get("nonce", ""), asked["code_challenge"])
        answer = urlencode({"code": code, "state": asked["state"]})
        raise web.HTTPFound(f"{self.client.redirect_url}?{answer}")

    async def _token(self, request: web.Request) -> web.Response:
        form = {key: str(value) for key, value in (await request.post()).items()}
        if self._credentials(request, form) != (self.client.name, self.client.secret):
            return web.json_response({"error": "invalid_client"}, status=401)
        if (grant := self._grant(form)) is None:
            return web.json_response({"error": "invalid_grant"}, status=400)
        refresh = secrets.token_urlsafe(16)
        self.refreshes[refresh] = grant
        return web.json_response(
            {
                "access_token": secrets.token_urlsafe(16),
                "token_type": "Bearer",
                "expires_in": _LIFE_S,
                "id_token": self.id_token(grant.email, grant.nonce),
                "refresh_token": refresh,
            }
        )

    def _grant(self, form: Mapping[str, str]) -> Grant | None:
        if form.get("grant_type") == "refresh_token":
            self.renewals += 1
            return self.refreshes.pop(form["refresh_token"], None)
        grant = self.codes.pop(form.get("code", ""), None)
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        fits = form.get("redirect_uri") == self.client.redirect_url
        return grant if grant and fits and _base64(verifier) == grant.challenge else None

    def _credentials(self, request: web.Request, form: Mapping[str, str]) -> tuple[str, str]:
        """From the header or the form, as clients choose."""
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            name, _, secret = base64.b64decode(text).decode().partition(":")
            return name, secret
        return form.get("client_id", ""), form.get("client_secret", "")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _encoded(part: Mapping[str, Any]) -> str:
    return _base64(json.dumps(part).encode())


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))
