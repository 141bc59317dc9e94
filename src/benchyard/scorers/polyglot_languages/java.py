"""Java: javac and JUnit's console launcher, in the place of gradle, which needs a network for every test."""

import re

from benchyard.hosts.kits import Kits
from benchyard.scorers.polyglot_languages.base import Language, Tools

_DISABLED = re.compile(rb"@Disabled\([^)]*\)\s*\n")
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
mkdir -p build/classes
find src -name '*.java' > build/sources
javac -encoding UTF-8 -nowarn -d build/classes -cp "$jars" @build/sources &&
exec java -cp "build/classes$jars" org.junit.platform.console.ConsoleLauncher \\
    --disable-banner --disable-ansi-colors --fail-if-no-tests --details=tree --scan-classpath build/classes
"""
    passed = re.compile(rb"^\[ +[1-9]\d* tests successful +\]", re.MULTILINE)
    image = Tools(substitutes=_GRADLE)

    async def of_server(self, kits: Kits) -> Tools:
        return self.image

    def prepared(self, path: str, content: bytes) -> bytes:
        return _DISABLED.sub(b"", content) if path.endswith(".java") else content
