"""Listings: walked as a whole, or page by page, subscriptable on the present one."""

import inspect
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from pydantic import BaseModel, ValidationError

from benchyard.client.methods import Descriptor, OneFrame, Verb, VerbGroup, signature_of
from benchyard.client.operations import Emit, Flow, Request, Steps, send
from benchyard.client.sessions import AsyncSession, Session, SyncSession
from benchyard.errors import BenchyardError, UsageError

P = ParamSpec("P")
M = TypeVar("M", bound=BaseModel)
S = TypeVar("S", bound=Session)
Owner = TypeVar("Owner", bound=VerbGroup[Any])


@dataclass(frozen=True)
class ListingSpec(Generic[M]):
    """Description of a listing: its path, and the name and the model of its items."""

    path: str
    key: str
    model: type[M]
    query: Mapping[str, Any]


@dataclass(frozen=True)
class PageContent(Generic[M]):
    """Content of one page."""

    items: list[M]
    has_more: bool
    total_count: int | None
    last_id: str | None


def fetch_page(listed: ListingSpec[M]) -> Steps[PageContent[M]]:
    """Request one page."""
    body = (yield from send(Request("GET", listed.path, dict(listed.query)))).data()
    try:
        found = body[listed.key]
        items = [listed.model.model_validate(item) for item in found]
        last_id = found[-1]["id"] if found else None
        more = bool(body.get("has_more")) and last_id is not None
        return PageContent(items, more, body.get("total_count"), last_id)
    except (KeyError, TypeError, AttributeError, ValidationError) as error:
        raise BenchyardError(f"the server's answer is not a page of {listed.key}") from error


class _Page(Generic[M]):
    """A page; its items are also available under their name on the wire, as in `page.benchmarks`."""

    def __init__(self, listed: ListingSpec[M], held: PageContent[M]) -> None:
        self._listed = listed
        self._held = held

    @property
    def items(self) -> list[M]:
        """The items of this page."""
        return self._held.items

    @property
    def has_more(self) -> bool:
        """Tell whether more pages follow."""
        return self._held.has_more

    @property
    def total_count(self) -> int | None:
        """Return the number of items on all pages; None if it is not known."""
        return self._held.total_count

    def __len__(self) -> int:
        return len(self._held.items)

    @overload
    def __getitem__(self, index: int) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> list[M]: ...
    def __getitem__(self, index: int | slice) -> M | list[M]:
        return self._held.items[index]

    def __getattr__(self, name: str) -> list[M]:
        # Copying asks for names before the fields are set: a private name is never the listing's.
        if not name.startswith("_") and name == self._listed.key:
            return self._held.items
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        more = ", and more" if self.has_more else ""
        return f"<{type(self).__name__} of {len(self)} {self._listed.key}{more}>"

    def _following(self) -> ListingSpec[M]:
        return replace(self._listed, query={**self._listed.query, "starting_after": self._held.last_id})


class Page(_Page[M]):
    """A page; iterating continues over all following pages."""

    def __init__(self, session: SyncSession, listed: ListingSpec[M], held: PageContent[M]) -> None:
        super().__init__(listed, held)
        self._session = session

    def get_next_page(self) -> "Page[M] | None":
        """Return the page after this one; None after the last."""
        if not self.has_more:
            return None
        following = self._following()
        with OneFrame():
            return Page(self._session, following, self._session.run(fetch_page(following)))

    def __iter__(self) -> Iterator[M]:
        page: Page[M] | None = self
        while page is not None:
            yield from page.items
            page = page.get_next_page()


class AsyncPage(_Page[M]):
    """A page; `async for` continues over all following pages."""

    def __init__(self, session: AsyncSession, listed: ListingSpec[M], held: PageContent[M]) -> None:
        super().__init__(listed, held)
        self._session = session

    async def get_next_page(self) -> "AsyncPage[M] | None":
        """Return the page after this one; None after the last."""
        if not self.has_more:
            return None
        following = self._following()
        with OneFrame():
            return AsyncPage(self._session, following, await self._session.run(fetch_page(following)))

    async def __aiter__(self) -> AsyncIterator[M]:
        page: AsyncPage[M] | None = self
        while page is not None:
            for item in page.items:
                yield item
            page = await page.get_next_page()

    def __iter__(self) -> Iterator[M]:
        if self.has_more:
            # A loop that silently omits items would be worse.
            raise UsageError("more pages follow this one: use `async for`, or `.items` for this page only")
        return iter(self.items)


class Listing(Generic[M]):
    """A listing that is not requested yet: await its first page, or go over all items by `async for`."""

    def __init__(self, session: AsyncSession, listed: ListingSpec[M]) -> None:
        self._session = session
        self._listed = listed

    def __await__(self) -> Generator[Any, None, AsyncPage[M]]:
        return self._first().__await__()

    async def __aiter__(self) -> AsyncIterator[M]:
        async for item in await self._first():
            yield item

    async def _first(self) -> AsyncPage[M]:
        with OneFrame():
            return AsyncPage(self._session, self._listed, await self._session.run(fetch_page(self._listed)))


class SyncListing(Verb[P, list[M]], Protocol[P, M]):
    """A listing on a client that blocks."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Page[M]: ...


class AsyncListing(Verb[P, list[M]], Protocol[P, M]):
    """A listing on a client that is awaited."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Listing[M]: ...


class listing(Descriptor, Generic[Owner, P, M]):
    """Make a method of a listing: a page on a sync client; on an async one it is awaited or iterated.

    Its `steps` returns the items of all pages.
    """

    def __init__(self, definition: Callable[Concatenate[Owner, P], ListingSpec[M]]) -> None:
        super().__init__(definition)

    @cached_property
    def __signature__(self) -> inspect.Signature:
        return signature_of(self.definition).replace(return_annotation=inspect.Signature.empty)

    @overload
    def __get__(self, group: None, owner: type) -> Callable[Concatenate[Owner, P], Any]: ...
    @overload
    def __get__(self, group: VerbGroup[SyncSession], owner: type) -> SyncListing[P, M]: ...
    @overload
    def __get__(self, group: VerbGroup[AsyncSession], owner: type) -> AsyncListing[P, M]: ...
    @overload
    def __get__(self, group: VerbGroup[S], owner: type) -> Verb[P, list[M]]: ...
    def __get__(self, group: Any, owner: type) -> Any:
        if group is None:
            return self.unbound

        def steps(*args: P.args, **kwargs: P.kwargs) -> Steps[list[M]]:
            return all_items(self.definition(group, *args, **kwargs))

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            listed = self.definition(group, *args, **kwargs)
            if not isinstance(group.session, SyncSession):
                return Listing(group.session, listed)
            with OneFrame():
                return Page(group.session, listed, group.session.run(fetch_page(listed)))

        vars(method)["steps"] = steps
        return self.named(method)


PAGE_SIZE = 1000


def items_of_pages(request: Request, key: str, model: type[M], limit: int | None = None) -> Flow[M]:
    """Yield each item of a listing, newest first, at most `limit`; requests a page only when it is needed."""
    cursor: str | None = None
    left = limit
    while left is None or left > 0:
        size = PAGE_SIZE if left is None else min(left, PAGE_SIZE)
        query = {**request.query, "limit": size, "starting_after": cursor, "include_total_count": False}
        body = (yield from send(replace(request, query=query))).data()
        try:
            found = [model.model_validate(item) for item in body[key]]
            cursor = body[key][-1]["id"] if found else None
        except (KeyError, TypeError, ValidationError) as error:
            raise BenchyardError(f"the server's answer is not a page of {key}") from error
        for item in found:
            yield Emit(item)
        if not body.get("has_more") or cursor is None:
            return
        left = None if left is None else left - len(found)


def all_items(listed: ListingSpec[M]) -> Steps[list[M]]:
    """Return the items of all pages; at most the query's `limit`, if it has one."""
    limit: int | None = listed.query.get("limit")
    found: list[M] = []
    after = listed.query.get("starting_after")
    while True:
        size = PAGE_SIZE if limit is None else min(limit - len(found), PAGE_SIZE)
        query = {**listed.query, "limit": size, "starting_after": after}
        held = yield from fetch_page(replace(listed, query=query))
        found += held.items
        after = held.last_id
        if not held.has_more or len(found) == limit:
            return found
