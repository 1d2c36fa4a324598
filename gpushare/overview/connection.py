"""The cluster that the flags of kubectl select: its client, its namespace, and what a command asks of it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from gpushare.adapters.kube.access import impersonating
from gpushare.adapters.kube.client import KubeClient
from gpushare.adapters.kube.config import load_access, user_kubeconfig, user_namespace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ApiSource:
    """The flags of kubectl as the user set them; ``user`` and ``groups`` are those to impersonate."""

    kubeconfig: str | None = None
    context: str | None = None
    user: str | None = None
    groups: tuple[str, ...] = ()

    async def client(self) -> KubeClient:
        """A client of the cluster that kubectl would use. Raises ConfigError."""
        access = await load_access(user_kubeconfig(self.kubeconfig), self.context)
        return KubeClient(impersonating(access, self.user, self.groups) if self.user else access)

    def namespace(self, name: str | None, *, everywhere: bool = False) -> str | None:
        """The namespace to show: the named one, else that of kubectl; None for all. Raises ConfigError."""
        if everywhere:
            return None
        return name or user_namespace(user_kubeconfig(self.kubeconfig), self.context)

    def ask(self, question: Callable[[KubeClient], Awaitable[T]]) -> T:
        """The answer of the cluster. Raises ConfigError and what the question raises."""
        return asyncio.run(self._ask(question))

    async def _ask(self, question: Callable[[KubeClient], Awaitable[T]]) -> T:
        async with await self.client() as client:
            return await question(client)
