"""The images that Polyglot's exercises are worked on and tested in: one for each language.

The official harness has one image for all, with Go 1.21, Node 20, Python 3.11, Java 21 and the newest Rust.
Tests run without a network here, so what they would fetch is in the images.
"""

from pathlib import Path

from benchyard.errors import UsageError

DOCKERFILE = "Dockerfile"
_APT = "RUN apt-get update && apt-get install -y --no-install-recommends {} && rm -rf /var/lib/apt/lists/*\n"
_NPM = (
    "jest@29.7.0 @babel/core@7.25.2 @exercism/babel-preset-javascript@0.2.1 babel-jest@29.7.0 core-js@3.37.1"
)
_CRATES = 'anyhow = "1.0"\\nrand = "0.8"\\ntime = "0.3"'
_TEXTS = {
    "cpp": "FROM debian:bookworm\n" + _APT.format("g++ cmake make libboost-date-time-dev libtbb-dev"),
    "go": "FROM golang:1.21-bookworm\n",
    "java": "FROM debian:bookworm\n" + _APT.format("default-jdk-headless junit5 libassertj-core-java"),
    "javascript": (
        "FROM node:20-bookworm\n"
        f"RUN mkdir /npm-install && cd /npm-install && npm init -y && npm install {_NPM}\n"
    ),
    "python": "FROM python:3.11-bookworm\nRUN pip install --no-cache-dir pytest==8.3.5\n",
    "rust": (
        "FROM rust:1-bookworm\n"
        "RUN cargo new --lib /crates && cd /crates"
        f" && printf '{_CRATES}\\n' >> Cargo.toml && cargo fetch\n"
    ),
}


def context(language: str, work: Path) -> Path:
    """The folder of the Dockerfile of a language, written where it is not there yet."""
    if language not in _TEXTS:
        raise UsageError(f"there is no image for {language}; there are: {', '.join(_TEXTS)}")
    folder = work / f"image-{language}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DOCKERFILE).write_text(_TEXTS[language])
    return folder
