# What is graded is a process of its own already; its answers are compared here.
exec python3 -I -S - <<'PROGRAM'
import ctypes, random, sys, time, urllib.error, urllib.request

ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # what is graded cannot look into this process

opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(path):
    try:
        with opener.open(f"http://127.0.0.1:18080{path}", timeout=5) as answer:
            return answer.status, answer.read(1000).decode(errors="replace").strip()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except (OSError, ValueError) as error:
        return 0, str(error)


deadline = time.monotonic() + 3
while get("/health")[0] == 0 and time.monotonic() < deadline:
    time.sleep(0.1)
chance = random.Random()
pairs = [(2, 3), (-7, 7), *((chance.randrange(-10**6, 10**6), chance.randrange(10**6)) for _ in range(3))]
wanted = {"/health": (200, "ok"), **{f"/sum?a={a}&b={b}": (200, str(a + b)) for a, b in pairs}}
wrong = [f"{path}: {said}" for path, right in wanted.items() if (said := get(path)) != right]
if get("/nothing")[0] != 404:
    wrong.append("/nothing is not 404")
sys.exit("\n".join(wrong) or 0)
PROGRAM
