"""Java: javac and JUnit's console launcher, in the place of gradle, which needs a network for every test."""

import re

from benchyard.hosts.kits import Kits
from benchyard.scorers.polyglot_languages.base import Language, Tools

_GRADLE = ("javac and JUnit's console launcher for gradle", "Debian's JUnit 5 and AssertJ")


class JavaLanguage(Language):
    """A JDK, and Debian's junit5 and libassertj-core-java."""

    programs = ("javac", "java")
    command = """\
jars=
for name in assertj-core 'junit-*' opentest4j apiguardian-api picocli 'univocity-parsers*' 'byte-buddy*'; do
    for jar in /usr/share/java/$name.jar; do [ -e "$jar" ] && jars="$jars:$jar"; done
done
[ -n "$jars" ] || { echo "no JUnit in /usr/share/java: install junit5 libassertj-core-java"; exit 127; }
jars=${jars#:}
mkdir -p build/main build/test
find src/main -name '*.java' > build/main.sources
find src/test -name '*.java' > build/test.sources
# As gradle has it: the solution knows nothing of the tests, and cannot stand in for JUnit.
compile="javac -encoding UTF-8 -nowarn -proc:none"
$compile -d build/main -cp build/main @build/main.sources &&
$compile -d build/test -cp "$jars:build/main" @build/test.sources &&
exec java -cp "$jars:build/test:build/main" org.junit.platform.console.ConsoleLauncher \\
    --disable-banner --disable-ansi-colors --fail-if-no-tests --details=tree --scan-classpath build/test
"""
    complete = (
        re.compile(rb"^\[ +([1-9]\d*) tests started +\]", re.MULTILINE),
        re.compile(rb"^\[ +([1-9]\d*) tests successful +\]", re.MULTILINE),
    )
    passed = re.compile(rb"^\[ +[1-9]\d* tests successful +\]", re.MULTILINE)
    skipped = re.compile(rb"^\[ +([1-9]\d*) tests skipped +\]", re.MULTILINE)
    sources = ("java",)
    reserved = r"src/test/|(?:.*/)?module-info\.java$"
    replaced = (".java", re.compile(rb"@Disabled\([^)]{0,1000}\)[ \t\r]*\n"), b"")
    image = Tools(substitutes=_GRADLE)

    async def of_server(self, kits: Kits) -> Tools:
        return self.image
