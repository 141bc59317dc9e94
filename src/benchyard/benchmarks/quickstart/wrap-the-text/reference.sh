cat > wrap.py <<'END'
import re
import sys


def main():
    try:
        (width,) = (int(each) for each in sys.argv[1:])
        if width < 1:
            raise ValueError
    except ValueError:
        print("usage: wrap.py WIDTH", file=sys.stderr)
        return 2
    paragraphs = []
    for block in re.split(r"\n[ \t]*\n", sys.stdin.read()):
        lines = []
        for word in block.split():
            if lines and len(lines[-1]) + 1 + len(word) <= width:
                lines[-1] += " " + word
            else:
                lines.append(word)
        if lines:
            paragraphs.append("\n".join(lines))
    if paragraphs:
        print("\n\n".join(paragraphs))
    return 0


sys.exit(main())
END
