"""Answers as images: the pristine state, with what the agent left at some paths."""

import pytest

from benchyard.errors import Conflict, NotFound, NotSupported, ScorerFailed, UsageError
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


def test_an_answer_goes_over_onto_the_pristine_state(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        agent = await yard.devbox("dbx_agent", user="root")
        await yard.text(agent, "mkdir /task; echo todo > /task/answer; echo real > /usr/local/bin/judge")
        await yard.host.snapshot(agent, "pristine")
        await yard.text(
            agent, "echo 42 > /task/answer; echo fake > /usr/local/bin/judge; ln -s /etc /task/out"
        )
        await yard.host.snapshot(agent, "frozen")
        rooms = yard.host.rooms
        carried = await rooms.answer_image(
            "frozen", ["/task/answer", "/task/", "/task/x/y"], "pristine", "answer"
        )
        assert (carried.entries, carried.bytes) == (2, 3)
        assert carried.refused == ["/task/out: it is a link that leads elsewhere, to /etc"]
        await yard.restart()
        room = await yard.devbox("dbx_room", user="root", image="answer")
        assert (
            await yard.text(room, "cat /task/answer /usr/local/bin/judge; ls /task") == "42\nreal\nanswer\n"
        )
        for image in ("frozen", "pristine"):
            await yard.images.remove(image)
        assert await yard.text(room, "cat /task/answer /usr/local/bin/judge") == "42\nreal\n"

    on_host(test, name="native")


def test_a_folder_of_the_machine_is_carried_whole(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        agent = await yard.devbox("dbx_agent", user="root")
        await yard.host.snapshot(agent, "pristine-w")
        await yard.text(agent, "echo new > /usr/share/doc-new; rm -r /etc/skel; mkdir /etc/skel")
        before = await yard.text(agent, "ls /usr/share/bash-completion/ | wc -l")
        await yard.text(agent, "echo mine > /usr/share/bash-completion/mine")
        await yard.host.snapshot(agent, "frozen-w")
        paths = ["/usr/share/bash-completion", "/usr", "/etc/skel"]
        carried = await yard.host.rooms.answer_image(
            "frozen-w", paths[:1] + paths[2:], "pristine-w", "answer-w"
        )
        assert carried.refused == []
        room = await yard.devbox("dbx_room", user="root", image="answer-w")
        assert int(await yard.text(room, "ls /usr/share/bash-completion | wc -l")) == int(before) + 1
        assert await yard.text(room, "cat /usr/share/bash-completion/mine; ls -A /etc/skel") == "mine\n"
        refused = await yard.host.rooms.answer_image("frozen-w", ["/usr"], "pristine-w", "other-w")
        assert refused.refused == ["/usr: it is this machine's own, not the devbox's"]

    on_host(test, name="native")


def test_uncarried_answer_leaves_nothing(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        agent = await yard.devbox("dbx_agent", user="root")
        await yard.text(agent, "mkdir /task; truncate -s 2G /task/sparse")
        await yard.host.snapshot(agent, "frozen-n")
        answer = yard.host.rooms.answer_image
        with pytest.raises(ScorerFailed, match="1073741824 bytes"):
            await answer("frozen-n", ["/task"], "frozen-n", "answer-n")
        for paths in (["task"], ["/"], ["/a/../b"], ["/a\0b"], ["/x"] * 300):
            with pytest.raises(UsageError):
                await answer("frozen-n", paths, "frozen-n", "answer-n")
        with pytest.raises(NotFound):
            await answer("frozen-n", ["/task"], "no-such-image", "answer-n")
        with pytest.raises(Conflict):
            await answer("frozen-n", ["/etc/passwd"], "frozen-n", "frozen-n")
        with pytest.raises(NotFound):
            await yard.images.get("answer-n")

    on_host(test, name="native")


def test_a_driver_without_images_says_so(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        with pytest.raises(NotSupported):
            await yard.host.rooms.answer_image("host", ["/x"], "host", "answer")

    on_host(test)
