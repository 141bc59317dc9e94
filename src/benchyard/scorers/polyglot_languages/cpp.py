"""C++: built by CMake, whose build runs the tests too."""

import re

from benchyard.hosts.kits import Kits
from benchyard.scorers.polyglot_languages.base import Language, Tools


class CppLanguage(Language):
    """g++, CMake and make; two exercises need boost's date_time."""

    programs = ("g++", "cmake", "make")
    command = 'mkdir -p build && cd build && cmake -DEXERCISM_RUN_ALL_TESTS=1 -G "Unix Makefiles" .. && make'
    passed = re.compile(rb"^All tests passed \(\d+ assertions?", re.MULTILINE)
    complete = (
        re.compile(rb"^All tests passed \(\d+ assertions? in (\d{1,9}) test cases?\)", re.MULTILINE),
        re.compile(rb"^\[100%\] Built target ", re.MULTILINE),
    )
    test_names = re.compile(rb"^[ \t]*TEST_CASE\([ \t]*\"([^\"\n]*)", re.MULTILINE)
    sources = ("cpp", "cc", "cxx", "h", "hh", "hpp", "hxx", "ipp", "inl", "tpp")
    reserved = r"[^/]*_test\.cpp$"

    async def of_server(self, kits: Kits) -> Tools:
        return Tools()
